// Rows of a table, by id. There is no padding id: masks make it irrelevant.
#include "nn/options.hpp"

namespace tapehead {

Embedding::Embedding(const Scope& scope, std::int64_t vocabulary, std::int64_t width,
                     const Init& init)
    : weight(scope.param("weight",
                         {detail::positive(scope, "embedding", "vocabulary", vocabulary),
                          detail::positive(scope, "embedding", "width", width)},
                         init)),
      path(scope.path()) {}

Tensor Embedding::operator()(const Tensor& ids, CallSite at) const {
  const InModule here(path, at);
  return embedding(weight, ids);
}

}  // namespace tapehead
