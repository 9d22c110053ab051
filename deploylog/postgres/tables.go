package postgres

const schemaVersion = 2

// tables is what a log consisted of first. The columns of text are compared byte by byte, as
// everywhere else; what a client does not understand is not in the way of what it does.
//
// The index of the markers is for a target's latest and what is in progress. It has a condition,
// so that whether an event is in the log is never looked for by it: of a new log the server has
// no statistics, and would take it for as good as the other.
//
// Which session has a lock need not outlive the server, with which all sessions end.
const tables = `
CREATE TABLE log (
	one     boolean PRIMARY KEY DEFAULT true CHECK (one),
	id      text    NOT NULL,
	version bigint  NOT NULL
);

CREATE TABLE events (
	seq        bigint PRIMARY KEY,
	id         text   COLLATE "C" NOT NULL,
	deployment text   COLLATE "C" NOT NULL,
	target     text   COLLATE "C" NOT NULL,
	revision   text   COLLATE "C" NOT NULL,
	event      text   COLLATE "C" NOT NULL,
	attempt    bigint NOT NULL,
	created_at bigint NOT NULL, -- nanoseconds since 1970, UTC
	data       text   COLLATE "C",
	registered bigint NOT NULL, -- seq of the first event of the deployment
	hash       bytea  NOT NULL,
	UNIQUE (deployment, target, event, attempt)
);
CREATE INDEX markers ON events (target, event, registered, seq) WHERE event ~ '-(started|finished-successfully|failed)$';

CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN RAISE EXCEPTION 'the deployment log is append-only'; END $$;
CREATE TRIGGER events_are_never_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON events
	FOR EACH STATEMENT EXECUTE FUNCTION refuse();
CREATE TRIGGER the_log_is_never_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON log
	FOR EACH STATEMENT EXECUTE FUNCTION refuse();

CREATE FUNCTION alive(session bigint) RETURNS boolean LANGUAGE sql VOLATILE AS $$
	SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND classid = ((session >> 32) & 4294967295)::oid AND objid = (session & 4294967295)::oid) $$;

CREATE UNLOGGED TABLE locks (
	key     bytea  PRIMARY KEY, -- sha256 of the name
	name    text   NOT NULL,    -- as people see it
	session bigint NOT NULL,
	by      text   NOT NULL
);
`

// beside is what a log of the first version had not: what its events name, by hash or by name. Who
// writes events needs no right to change what is there, but when it was stored last. Nobody but the
// owner has a right from the start, whatever the default privileges of the schema are: these are
// how readers are given all tables, and secrets are to be given by name.
const beside = `
CREATE TABLE objects (
	hash    bytea PRIMARY KEY,
	content bytea NOT NULL CHECK (sha256(content) = hash),
	stored  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE salt (
	one   boolean PRIMARY KEY DEFAULT true CHECK (one),
	bytes bytea   NOT NULL
);

CREATE TABLE protected (
	name    text COLLATE "C" PRIMARY KEY,
	content bytea NOT NULL,
	stored  timestamptz NOT NULL DEFAULT now()
);
DO $$ DECLARE other record; BEGIN
	FOR other IN SELECT c.oid::regclass AS kept, CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE g.grantee::regrole::text END AS role
		FROM pg_class c, aclexplode(c.relacl) g WHERE c.oid IN ('objects'::regclass, 'salt'::regclass, 'protected'::regclass) AND g.grantee <> c.relowner
	LOOP EXECUTE format('REVOKE ALL ON %s FROM %s', other.kept, other.role); END LOOP;
END $$;
`
