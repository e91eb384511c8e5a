// SPDX-License-Identifier: MIT
//
// What a program that was written somewhere else does: one matmul, and one mistake.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <rkchain/rkchain.hpp>
#include <vector>

int main() {
  rkchain::OpenOptions options;
  options.backend = rkchain::BackendKind::model;
  const rkchain::Device device = rkchain::Device::open(options);

  const rkchain::Shape shape{.m = 3, .k = 70, .n = 5};
  std::vector<std::int8_t> a(std::size_t{shape.m} * shape.k);
  std::vector<std::int8_t> b(std::size_t{shape.n} * shape.k);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::int8_t>(i * 7 % 251 - 125);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<std::int8_t>(i * 11 % 241 - 120);

  const rkchain::Weights weights = rkchain::Weights::pack(device, shape.k, shape.n, b);
  std::vector<std::int32_t> c(std::size_t{shape.m} * shape.n);
  rkchain::matmul(device, shape, a, weights, c);

  for (std::size_t m = 0; m < shape.m; ++m) {
    for (std::size_t n = 0; n < shape.n; ++n) {
      std::int32_t sum = 0;
      for (std::size_t k = 0; k < shape.k; ++k) sum += a[m * shape.k + k] * b[n * shape.k + k];
      if (c[m * shape.n + n] != sum) {
        std::printf("row %zu, column %zu: %d instead of %d\n", m, n, c[m * shape.n + n], sum);
        return 1;
      }
    }
  }
  std::printf("%s: the product is right\n", device.info().driver.c_str());

  // An exception crosses the border of the library as what it is.
  try {
    static_cast<void>(rkchain::Weights::pack(device, 0, shape.n, b));
  } catch (const rkchain::Error& error) {
    std::printf("refused, as it should be: %s\n", error.what());
    return error.code() == rkchain::Errc::invalid_argument ? 0 : 1;
  }
  std::printf("K = 0 was accepted\n");
  return 1;
}
