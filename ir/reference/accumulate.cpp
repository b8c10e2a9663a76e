// Rounding and storing of accumulated values.
#include "ir/reference/accumulate.h"

#include "ir/reference/scalar.h"

namespace tilewright::reference {

void store_sum(DType accumulate, DType dtype, void* base, int64_t offset, double sum) {
  double rounded = round_to(accumulate, sum);
  (void)visit<kFloat | kFloat8>(dtype, [&]<class T>(Tag<T>) {
    static_cast<T*>(base)[offset] = convert_element<T>(rounded, false);
    return Status::ok();
  });
}

void store_sum(DType accumulate, DType dtype, void* base, int64_t offset, uint64_t sum) {
  int64_t wrapped = Scalar::of_integer(accumulate, static_cast<int64_t>(sum)).i;
  (void)visit<kLogical>(dtype, [&]<class T>(Tag<T>) {
    static_cast<T*>(base)[offset] = convert_element<T>(wrapped, false);
    return Status::ok();
  });
}

}  // namespace tilewright::reference
