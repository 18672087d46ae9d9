// Regions of a C++ extension of torch: what `with stepscope.region("name"):` is in Python.
//
//     void forward() {
//         stepscope::region here("lookup");
//         ...
//     }
//
// Without a recording, and where StepScope was never imported, a region costs a look into torch's dispatcher.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <utility>
#include <vector>

namespace stepscope {

class region {
  public:
    explicit region(std::string name) : name_(std::move(name)) { mark(true); }
    ~region() { mark(false); }
    region(const region &) = delete;
    region &operator=(const region &) = delete;

  private:
    void mark(bool start) noexcept {
        try {
            auto op = c10::Dispatcher::singleton().findSchema({"stepscope::mark", ""});
            if (!op.has_value()) return;
            std::vector<c10::IValue> stack{name_, start};
            op->callBoxed(stack);
        } catch (...) {  // a recording never harms the job
        }
    }
    std::string name_;
};

}  // namespace stepscope
