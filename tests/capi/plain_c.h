/* The test written in C, for the test program. */
#ifndef TESTS_CAPI_PLAIN_C_H
#define TESTS_CAPI_PLAIN_C_H

#ifdef __cplusplus
extern "C" {
#endif

/* 0 when all went well, else what did not is in `message`. */
int run_plain_c(char* message, int size);

#ifdef __cplusplus
}
#endif

#endif
