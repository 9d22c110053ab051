package expression_test

// productions are what each kind is made of.
var productions = map[byte][]string{
	'N': lines(`
<N> + <N>   <N> - <N>   <N> * <N>   <N> / <N>   <N> // <N>   <N> % <N>   <N> ** <K>   <N> ** 0.5   2 ** <K> % 7   -<N>
+<N>   - <N> ** 2   <N>|abs   <N>|int   <N>|float   <N>|round   <N>|round(<K>)   <N>|round(<K>, 'ceil')
<N>|round(<K>, 'floor')   <N>|round(precision=<K>, method='common')   <T>|int   <T>|int(<N>)   <T>|int(<N>, 16)
<T>|int(base=8)   <T>|int(0, <K>)   <A>|int(<A>)   <T>|float   <T>|float(<N>)   <A>|float(<A>)   <A>|length
<T>|count   <T>|wordcount   <L>|sum   <L>|sum(start=<N>)   <L>|sum('a', <N>)   hosts|sum(attribute='port')   <L>|min
<L>|max   <L>|first   <L>|last   <L>[<K>]   <L>.<K>   <D>[<T>]   <D>.a   <D>.get(<T>, <N>)   <D>|length
<T>.find(<T>)   <T>.rfind(<T>)   <T>.index(<T>)   <T>.rindex(<T>)   <T>.count(<T>)   <L>.count(<A>)   <L>.index(<A>)
<N> if <B> else <N>   <N> if <A>   <N> or <N>   <N> and <N>   <A>|default(<N>)   missing|default(<N>)   missing|d
<T>|d(<N>, true)
`),
	'T': lines(`
<T> ~ <T>   <A> ~ <A>   <T> + <T>   <T> * <K>   <K> * <T>   <T> % <A>   <T> % (<A>, <A>)   <T> % <D>
'%s|%r|%5s|%-5s|' % (<A>, <A>, <T>, <T>)   '%d %i %5d %-5d %05d %+d % d' % (<N>, <N>, <N>, <N>, <N>, <N>, <N>)
'%x %X %o %#x %#o' % (<N>, <N>, <N>, <N>, <N>)   '%e %E %f %.2f %g %G' % (<N>, <N>, <N>, <N>, <N>, <N>)
'%.3g %#g %08.3f %+.1e' % (<N>, <N>, <N>, <N>)   '%c %a' % (<A>, <A>)   '%.2s %5.1d' % (<A>, <N>)   '%(a)s %%' % <D>
<T>|format(<A>)   <T>|format(<A>, <A>)   '%(a)s'|format(a=<A>)   <T>.format(<A>, <A>)
'{} {:5} {:>5} {:<5} {:^5}'.format(<A>, <T>, <T>, <T>, <T>)
'{:d} {:5d} {:05d} {:+d} {:,} {:_}'.format(<N>, <N>, <N>, <N>, <N>, <N>)
'{:x} {:X} {:o} {:b} {:#x} {:c}'.format(<N>, <N>, <N>, <N>, <N>, <N>)
'{:e} {:f} {:.2f} {:g} {:G} {:%} {:.1%}'.format(<N>, <N>, <N>, <N>, <N>, <N>, <N>)
'{:n} {:.3} {:10.2} {:=+8} {:08.1f}'.format(<N>, <N>, <N>, <N>, <N>)   '{:*^9} {:.2} {:s}'.format(<A>, <T>, <T>)
'{a} {0}'.format(<A>, a=<A>)   <A>|string   <A>|tojson   <A>|tojson(<K>)   <A>|tojson(indent=2)   <A>|e   <A>|escape
<A>|safe   <T>|e   <T>|upper   <T>|lower   <T>|capitalize   <T>|title   <T>|trim   <T>|trim(<T>)
<T>|replace(<T>, <T>)   <T>|replace(<T>, <T>, <K>)   <A>|replace(<A>, <A>)   <T>|truncate(<N>)   <T>|truncate(5, true)
<T>|truncate(6, <B>, '!', 0)   <T>|indent   <T>|indent(<K>, <B>, <B>)   <T>|indent('> ')   <A>|urlencode
<T>|urlencode   <A>|upper   <A>|trim   <T>|reverse   <L>|join   <L>|join(<T>)   <A>|join('-')
<L>|join(',', attribute='a')   hosts|join(<T>, 'name')   <T>|first   <T>|last   <T>[<K>]   <T>[<K>:<K>]   <T>[::<K>]
<T>.upper()   <T>.lower()   <T>.title()   <T>.capitalize()   <T>.casefold()   <T>.strip()   <T>.strip(<T>)
<T>.lstrip()   <T>.rstrip(<T>)   <T>.ljust(<N>, '.')   <T>.rjust(7)   <T>.zfill(<N>)   <T>.replace(<T>, <T>)
<T>.replace(<T>, <T>, <K>)   <T>.removeprefix(<T>)   <T>.removesuffix(<T>)   <T>.join(<L>)   <T>.join(['x', <T>])
<T>.partition(<T>)[<K>]   <T>.split(<T>)[<K>]   <T> if <B> else <T>   <T> if <A>   <T> or <T>   <T> and <T>
<A>|default(<T>)   missing|default(<T>)   <T>|default(<T>, true)   disk.name   disk.state.labels[<T>]   hosts[0].name
<T>|attr('upper')   <D>|attr('a')   <A>|min   <A>|max
`),
	'L': lines(`
[<A>]   [<A>, <A>]   [<A>, <A>, <A>]   (<A>,)   (<A>, <A>)   <A>, <A>   <L> + <L>   <L> * <K>   <L>[<K>:<K>]
<L>[<K>:<K>:<K>]   <L>[::-1]   <L>|list   <T>|list   <D>|list   <A>|list   <L>|sort   <L>|sort(true)
<L>|sort(reverse=<B>, case_sensitive=<B>)   <L>|sort(attribute='a')   <L>|sort(attribute=<K>)
hosts|sort(attribute='tls,name')|map(attribute='name')|list   <L>|reverse   <L>|reverse|list   <L>|unique|list
<L>|unique(<B>)|list   <L>|unique   <L>|map('int')|list   <L>|map('string')   <L>|map('upper')|list
<L>|map('default', <A>)|list   <L>|map('replace', 'a', <T>)|list   <L>|map('round', <K>)|list   <L>|map('length')|list
<L>|map('e')|list   <L>|map('tojson')|list   <L>|map('first')|list   <L>|map('join', <T>)|list
<L>|map(attribute='a')|list   <L>|map(attribute=<K>)|list   <L>|map(attribute='a', default=<A>)|list
<L>|map(attribute='a.b')|list   hosts|map(attribute='tags.0', default=<A>)|list   <L>|select|list
<L>|select('odd')|list   <L>|select('in', <L>)|list   <L>|select('gt', <N>)|list   <L>|select('==', <A>)|list
<L>|select('string')   <L>|select('mapping')|list   <L>|reject|list   <L>|reject('none')|list
<L>|reject('eq', <A>)|list   <L>|selectattr('a')|list   <L>|selectattr('a', 'gt', <N>)|list
<L>|selectattr('missing', 'defined')|list   <L>|rejectattr('a', 'eq', <A>)|list   hosts|selectattr('tls')|list
hosts|rejectattr('port', 'lt', <N>)|map(attribute='name')   <L>|groupby('a')   <L>|groupby(0)|list
<L>|groupby('a', default=<A>)|list   hosts|groupby('tls')|map('first')|list
hosts|groupby('tls')|map(attribute='list')|map('length')|list   <D>|dictsort   <D>|dictsort(<B>)
<D>|dictsort(by='value')   <D>|dictsort(reverse=<B>)   <D>|items   <D>|items|list   <D>.items()   <D>.keys()
<D>.values()|list   <D>.values()   <D>.keys()|sort   <T>.split()   <T>.split(<T>)   <T>.split(none, <K>)
<T>.split(<T>, <K>)   <T>.rsplit(<T>, <K>)   <T>.rsplit(none, 1)   <T>.splitlines()   <T>.splitlines(<B>)
<T>.partition(<T>)   <T>.rpartition(<T>)   range(<K>)   range(<K>, <K>)   range(<K>, <K>, <K>)   <L>.copy()
<L> or <L>   <L> and <L>   <L> if <B> else <L>   <A>|default(<L>)   missing|default(<L>)   missing|items
`),
	'D': lines(`
{'a': <A>}   {'a': <A>, 'b': <A>}   {<T>: <A>}   {<A>: <A>, <A>: <A>}   dict(<D>, z=<A>)   dict(a=<A>)   dict(<L>)
dict(<D>|dictsort)   <D>.copy()   <D> if <B> else <D>   <D> or <D>   missing|default(<D>)   <D>|default(<D>, true)
hosts[<K>]   hosts|first   hosts|min(attribute='port')   hosts|max(attribute='name')
`),
	'B': lines(`
<A> == <A>   <A> != <A>   <N> == <N>   <N> < <N>   <N> <= <N>   <N> > <N>   <N> >= <N>   <T> == <T>   <T> < <T>
<T> >= <T>   <L> == <L>   <L> != <L>   <L> < <L>   <D> == <D>   <A> < <A>   (<A> == <A>) == <B>   (<N> < <N>) == <B>
(<N> < <N>) < <N>   <N> < <N> < <N>   <N> == <N> == <N>   <N> < (<N> < <N>)   <N> < <N> == <B>   <A> == <A> != <A>
<N> <= <N> in <L>   <N> in <L> == <B>   (<N> in <L>) == <B>   <A> in <L>   <A> not in <L>   <T> in <T>
<T> not in <T>   <T> in <D>   <A> in <A>   <A> in <L> in <L>   not <A>   not <A> == <A>   not <A> in <L>   <A> and <A>
<A> or <A>   <B> and <B> or <B>   <B> or <B> and not <B>   <A> is defined   <A> is undefined   missing is defined
missing is not defined   <A> is none   <A> is not none   <A> is boolean   <A> is true   <A> is false   <A> is integer
<A> is float   <A> is number   <A> is string   <A> is mapping   <A> is sequence   <A> is iterable   <A> is callable
<A> is sameas <A>   <T> is lower   <T> is upper   <A> is lower   <N> is odd   <N> is even   <N> is divisibleby <K>
<N> is divisibleby(<N>)   <N> is eq <N>   <A> is eq(<A>)   <A> is ne(<A>)   <N> is lt(<N>)   <N> is gt <N>
<N> is ge(<N>)   <N> is lessthan <N>   <A> is equalto(<A>)   <A> is in(<L>)   <A> is in <L>   <A> is not in(<L>)
<N> is not odd   <N> is odd and <B>   <N> is odd == <B>   not <N> is odd   <T> is filter   <T> is test
<T>.startswith(<T>)   <T>.endswith((<T>, <T>))   <T>.isdigit()   <T>.isalpha()   <T>.isalnum()   <T>.isspace()
<T>.islower()   <T>.isupper()   <B> if <B> else <B>   <N> is number is true   -<N> is number   <N>|abs is number
<N> + <N> is odd   'a' ~ <A> is string
`),
}
