/* The tables that several kernels read. */
#define POSEIDON2_TABLES_HERE
#define POSEIDON2_TABLES_PORTABLE
#if defined(__x86_64__)
#define POSEIDON2_TABLES_VECTOR
#define POSEIDON2_TABLES_SINGLE
#define POSEIDON2_TABLES_DOUBLE
#endif
#include "poseidon2_tables.h"
