/* Lets a Python program under valgrind mark memory as secret (undefined) and ask how many errors memcheck has seen. */
#include <valgrind/memcheck.h>

void mark_secret(void *p, unsigned long n)
{
    (void)VALGRIND_MAKE_MEM_UNDEFINED(p, n);
}

void mark_public(void *p, unsigned long n)
{
    (void)VALGRIND_MAKE_MEM_DEFINED(p, n);
}

unsigned errors_so_far(void)
{
    return RUNNING_ON_VALGRIND ? VALGRIND_COUNT_ERRORS : ~0u;
}
