#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <tapehead/gradcheck.hpp>

#include "gradcheck/verdict.hpp"

namespace tapehead {

namespace {

void add(GradcheckTensor& sum, const GradcheckTensor& part) {
  sum.compared += part.compared;
  sum.mismatches += part.mismatches;
  sum.kinks += part.kinks;
  sum.unresolved += part.unresolved;
  sum.zeros += part.zeros;
  sum.wide += part.wide;
  sum.largest = std::max(sum.largest, part.largest);
  sum.worst_relative = std::max(sum.worst_relative, part.worst_relative);
  sum.widest_relative = std::max(sum.widest_relative, part.widest_relative);
  sum.zero_names.insert(sum.zero_names.end(), part.zero_names.begin(), part.zero_names.end());
  if (sum.zero_names.size() > 10) sum.zero_names.resize(10);
}

}  // namespace

GradcheckReport merged(const std::vector<GradcheckReport>& stripes) {
  GradcheckReport all;
  std::set<std::string> coverage;
  std::size_t listed = 1;
  for (const GradcheckReport& part : stripes) {
    // A stripe that compared nothing says nothing about the others.
    const bool first = all.status == GradcheckStatus::nothing_checked;
    const GradcheckStatus status = part.status == GradcheckStatus::nothing_checked ? all.status
                                   : first                                         ? part.status
                                           : detail::graver(all.status, part.status);
    if (status != all.status || all.message.empty()) all.message = part.message;
    all.status = status;
    all.name = part.name;
    all.fast = part.fast;
    all.tolerance = part.tolerance;
    for (const GradcheckTensor& tensor : part.tensors) {
      const auto same = std::find_if(all.tensors.begin(), all.tensors.end(),
                                     [&](const auto& t) { return t.name == tensor.name; });
      if (same == all.tensors.end()) {
        all.tensors.push_back(tensor);
      } else {
        add(*same, tensor);
      }
    }
    all.worst.insert(all.worst.end(), part.worst.begin(), part.worst.end());
    listed = std::max(listed, part.worst.size());
    for (std::size_t i = 0; i < all.histogram.size(); ++i) all.histogram[i] += part.histogram[i];
    all.compared += part.compared;
    all.within_one_bar += part.within_one_bar;
    all.within_three_bars += part.within_three_bars;
    coverage.insert(part.coverage.begin(), part.coverage.end());
    all.evaluations += part.evaluations;
    all.seconds += part.seconds;
  }
  std::stable_sort(all.worst.begin(), all.worst.end(), worse);
  if (all.worst.size() > listed) all.worst.resize(listed);
  all.coverage.assign(coverage.begin(), coverage.end());
  if (all.status != GradcheckStatus::pass) return all;
  for (const GradcheckTensor& tensor : all.tensors) {
    if (tensor.compared + tensor.kinks == 0 && tensor.unresolved > 0) {
      all.status = GradcheckStatus::nothing_checked;
      all.message = fmt::format(
          "nothing was compared in {}: its error bars are wider than its gradients", tensor.name);
      return all;
    }
  }
  all.message = fmt::format("{} gradients agree; worst error {:.1e} of the largest in its tensor",
                            all.compared, all.worst_relative());
  return all;
}

}  // namespace tapehead
