/* SPDX-License-Identifier: MIT */
/* The same as consumer.cpp through the C interface, in C11. */
#include <rkchain.h>
#include <stdint.h>
#include <stdio.h>

enum { M = 3, K = 70, N = 5 };

static int8_t a[M * K], b[N * K];
static int32_t c[M * N];

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, rkchain_last_error());
  return 1;
}

int main(void) {
  rkchain_open_options options = {.size = sizeof options, .backend = RKCHAIN_BACKEND_MODEL};
  rkchain_device *device;
  rkchain_weights *weights;

  for (int i = 0; i < M * K; ++i) a[i] = (int8_t)(i * 7 % 251 - 125);
  for (int i = 0; i < N * K; ++i) b[i] = (int8_t)(i * 11 % 241 - 120);

  if (rkchain_open(&options, &device)) return failed("rkchain_open");
  if (rkchain_weights_pack_i8(device, K, N, b, sizeof b, RKCHAIN_NK, &weights))
    return failed("rkchain_weights_pack_i8");
  if (rkchain_matmul_i8(device, M, K, N, a, weights, c)) return failed("rkchain_matmul_i8");

  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      int32_t sum = 0;
      for (int k = 0; k < K; ++k) sum += a[m * K + k] * b[n * K + k];
      if (c[m * N + n] != sum) {
        fprintf(stderr, "row %d, column %d: %d instead of %d\n", m, n, c[m * N + n], sum);
        return 1;
      }
    }
  }
  printf("rkchain %s: the product is right\n", rkchain_version());

  if (rkchain_weights_pack_i8(device, 0, N, b, sizeof b, RKCHAIN_NK, &weights) !=
      RKCHAIN_INVALID_ARGUMENT) {
    fprintf(stderr, "K = 0 was accepted\n");
    return 1;
  }
  printf("refused, as it should be: %s\n", rkchain_last_error());

  if (rkchain_weights_free(weights)) return failed("rkchain_weights_free");
  if (rkchain_close(device)) return failed("rkchain_close");
  return 0;
}
