#!/bin/sh
# Run the test suite against a core built with AddressSanitizer and UndefinedBehaviorSanitizer: `make sanitize`.
#
# A copy of the tree is built and tested in build/sanitize, so that the usual core stays as it is. Any report, in whichever
# process, ends that process, and fails this script. Left out: tests that look at the usual core's machine code, that build
# or block the core, or that talk to other programs. Arguments go to pytest instead of that choice.
set -eu
cd "$(dirname "$0")/.."
python=$PWD/${VENV:-.venv}/bin/python
cc=${CC:-gcc}
flags="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g"

rm -rf build/sanitize
mkdir -p build/sanitize/reports build/sanitize/tree
reports=$PWD/build/sanitize/reports
cp -R pyproject.toml README.md LICENSE MANIFEST.in Makefile cellcrypt tests perf examples build/sanitize/tree
cd build/sanitize/tree
rm -f cellcrypt/_core*.so
sed -i 's/"-O3"/"-O1"/' pyproject.toml # with sanitizers -O3 takes minutes to compile
CC=$cc CFLAGS="$flags" LDFLAGS="-fsanitize=address,undefined" \
    "$python" -W ignore -c "from setuptools import setup; setup()" -q build_ext --inplace >../build.log 2>&1 ||
    { cat ../build.log; exit 1; }
ls cellcrypt/_core*.so >/dev/null || { cat ../build.log; exit 1; }

# handle_segv=0: a test kills a process of its own by a forbidden page, and Python's faulthandler tells of any other.
# libstdc++ comes with it, since ASan looks for C++ exceptions at its start, and matplotlib throws some.
export LD_PRELOAD="$($cc -print-file-name=libasan.so) $($cc -print-file-name=libstdc++.so.6)" PYTHONMALLOC=malloc PYTHONPATH="$PWD" PYCRYPTODOME_DISABLE_DEEPBIND=1
export ASAN_OPTIONS="detect_leaks=0:handle_segv=0:allocator_may_return_null=1:log_path=$reports/asan"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:log_path=$reports/ubsan"

"$python" -c "
import cellcrypt._core as core, os
assert os.path.dirname(os.path.dirname(core.__file__)) == os.getcwd(), core.__file__
assert b'__asan_init' in open(core.__file__, 'rb').read()"

[ $# -gt 0 ] || set -- -m "not live and not kernel" --ignore=tests/proofs --ignore=tests/c \
    --ignore=tests/test_install.py --ignore=tests/test_no_core.py
status=0
"$python" -X faulthandler -m pytest -q -p no:cacheprovider "$@" || status=$?
# A warning is none: one test asks for more memory than there is.
for report in "$reports"/*; do
    if grep -q -E "ERROR: AddressSanitizer|CHECK failed|runtime error" "$report" 2>/dev/null; then
        cat "$report"
        status=1
    fi
done
[ $status -ne 0 ] || echo "no report by AddressSanitizer or UndefinedBehaviorSanitizer"
exit $status
