// FunctionRef: a borrowed callable, two pointers wide, for parameters that are called before the callee
// returns.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace tilewright {

template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class Callable>
    requires(!std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef> &&
             std::is_invocable_r_v<R, Callable&, Args...>)
  FunctionRef(Callable&& callable)
      : target_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* target, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<Callable>*>(target))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(target_, std::forward<Args>(args)...); }

 private:
  void* target_;
  R (*call_)(void*, Args...);
};

}  // namespace tilewright
