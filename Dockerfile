# The static binary and nothing else: build it first with `make image`.
FROM scratch
COPY bin/deployster /deployster
ENTRYPOINT ["/deployster"]
