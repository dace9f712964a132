/* Which Poseidon2 kernels there are, and what does not depend on the kernel. */
#include "bn254.h"
#include "poseidon2.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

const poseidon2_kernel *const poseidon2_kernels[] = {
    &poseidon2_portable,
#if defined(__x86_64__)
    &poseidon2_x86_64_adx,
    &poseidon2_avx2_fma,
    &poseidon2_avx512_ifma,
#endif
    NULL,
};

#if defined(__x86_64__)

static int has_bmi2_and_adx(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && ebx & bit_BMI2 && ebx & bit_ADX;
}

/* The compiler's library also asks whether the operating system saves the wide registers. */
static int has_avx2_and_fma(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static int has_avx512_ifma(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512ifma");
}

#endif

int poseidon2_kernel_runs_here(const poseidon2_kernel *kernel)
{
#if defined(__x86_64__)
    if (kernel == &poseidon2_x86_64_adx)
        return has_bmi2_and_adx();
    if (kernel == &poseidon2_avx2_fma)
        return has_bmi2_and_adx() && has_avx2_and_fma();
    if (kernel == &poseidon2_avx512_ifma)
        return has_bmi2_and_adx() && has_avx512_ifma();
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
    for (int i = LIMBS - 1; i >= 0; i--) {
        uint64_t limb = big_endian(bytes + 8 * (LIMBS - 1 - i));
        if (limb != P64_MODULUS[i])
            return limb < P64_MODULUS[i];
    }
    return 0;
}

size_t poseidon2_first_not_canonical(const uint8_t *elements, size_t count)
{
    size_t i = 0;
    while (i < count && is_canonical(elements + i * FIELD_BYTES))
        i++;
    return i;
}
