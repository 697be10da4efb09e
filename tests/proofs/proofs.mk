# make exact       every count of blocks, lead, and distance from a carry, against AES as FIPS-197 reads
# make billion     10^9 random octets per kernel in random splits, against cryptography
# make ctgrind     no secret decides a jump or an address, by memcheck; machine code: tests/proofs/test_machine_code.py
# make memory      no key and no key stream is left in memory after close() or deletion
# make processors  every known answer as older processors, and with each kernel
# make dudect      no difference in time between a fixed and random keys and payloads, by statistics; three minutes
# make compilers   gcc and clang at every level, 32 bits, arm64: the same octets, no warning; and their speed
# make tsan        no data race while threads use one cipher and many, by ThreadSanitizer
#
# What a proof needs must be there: otherwise it fails rather than skips.

.PHONY: proofs exact billion ctgrind memory processors tsan dudect compilers

PROVE = CELLCRYPT_FULL=1 CELLCRYPT_REQUIRE="core,cc,$(1)" $(BIN)/python -m pytest -p no:cacheprovider $(2)

proofs: exact billion ctgrind memory processors tsan dudect compilers

exact: $(VENV)/installed
	$(call PROVE,cryptography,tests/proofs/test_exact.py)

billion: $(VENV)/installed
	$(BIN)/python -m tests.proofs.billion

ctgrind: $(VENV)/installed
	$(call PROVE,valgrind,tests/proofs/test_ctgrind.py)

memory: $(VENV)/installed
	$(call PROVE,core,tests/proofs/test_memory.py)

processors: $(VENV)/installed
	$(call PROVE,qemu-x86_64,tests/proofs/test_processors.py)

tsan: $(VENV)/installed
	$(call PROVE,libtsan,tests/proofs/test_threads_sanitized.py)

dudect: $(VENV)/installed
	$(call PROVE,core,tests/proofs/test_dudect.py -rP)

compilers: $(VENV)/installed
	$(call PROVE,$(strip clang,m32,aarch64-linux-gnu-gcc,qemu-aarch64),tests/proofs/test_compilers.py -rP)
