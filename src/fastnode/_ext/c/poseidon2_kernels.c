/* Which Poseidon2 kernels there are, and what does not depend on the kernel. */
#include "bn254.h"
#include "poseidon2.h"

const poseidon2_kernel *const poseidon2_kernels[] = {
    &poseidon2_portable,
#if defined(__x86_64__)
    &poseidon2_avx512_ifma,
#endif
    NULL,
};

int poseidon2_kernel_runs_here(const poseidon2_kernel *kernel)
{
#if defined(__x86_64__)
    if (kernel == &poseidon2_avx512_ifma) {
        /* The compiler's library asks the operating system too whether it saves the wide registers. */
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
            && __builtin_cpu_supports("avx512ifma");
    }
#endif
    return kernel == &poseidon2_portable;
}

static uint64_t big_endian(const uint8_t bytes[8])
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | bytes[i];
    return value;
}

static int is_canonical(const uint8_t bytes[FIELD_BYTES])
{
    uint64_t borrow = 0;
    for (int i = 0; i < LIMBS; i++) {
        wide difference = (wide)big_endian(bytes + 8 * (LIMBS - 1 - i)) - P64_MODULUS[i] - borrow;
        borrow = (uint64_t)(difference >> 64) & 1;
    }
    return (int)borrow;
}

size_t poseidon2_first_not_canonical(const uint8_t *elements, size_t count)
{
    size_t i = 0;
    while (i < count && is_canonical(elements + i * FIELD_BYTES))
        i++;
    return i;
}
