#include "gradcheck/slope.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tapehead::detail {

bool agrees(const Slope& s, const Claim& claim) {
  return std::abs(s.estimate.value - claim.slope) <=
         claim.tolerance * claim.scale + claim.bars * s.estimate.bar;
}

double ElementProbe::go(double t) {
  const double x = subject_.variables()[variable_].base[static_cast<std::size_t>(index_)];
  const double moved = x + t;
  subject_.move(variable_, index_, moved);
  return moved - x;
}

double ElementProbe::scale() const {
  const Variable& v = subject_.variables()[variable_];
  return std::max(std::abs(v.base[static_cast<std::size_t>(index_)]), v.scale);
}

double DirectionProbe::go(double t) {
  moved_ = subject_.variables()[variable_].base;
  for (std::size_t i = 0; i < moved_.size(); ++i) moved_[i] += t * direction_[i];
  subject_.move_all(variable_, moved_);
  return t;
}

namespace {

constexpr int kRowsAtLeast = 3;
constexpr int kRowsAtMost = 10;

// The tableaus of one cotangent over one series of steps.
struct Track {
  Tableau central{2};
  Tableau jump{1, 3};  // right slope minus left slope

  void clear() {
    central.clear();
    jump.clear();
  }

  // plus and minus: the change of the function at +forward and -backward.
  void add(double forward, double backward, double plus, double minus, double variance) {
    const double width = forward + backward;
    const double h = width / 2;
    // The two displacements differ by an ulp of x; the curvature turns that into a slope.
    const double curvature = (plus + minus) / (h * h);
    const double g = (plus - minus) / width - curvature * (forward - backward) / 2;
    const double deviation = std::sqrt(variance);
    central.add(h, g, std::sqrt(2.0) * deviation / width);
    jump.add(h, plus / forward + minus / backward, std::sqrt(6.0) * deviation / h);
  }

  [[nodiscard]] Slope slope(double scale) const {
    Slope s;
    if (central.rows() < 2) return s;
    s.known = true;
    s.estimate = central.best();
    const Estimate& j = jump.best();
    s.left = s.estimate.value - j.value / 2;
    s.right = s.estimate.value + j.value / 2;
    s.kink = std::abs(j.value) > 8 * j.bar &&
             std::abs(j.value) > 1e-6 * std::max(scale, std::abs(s.estimate.value));
    return s;
  }
};

bool exact_enough(const Slope& s, const Claim& claim) {
  return s.known && !s.kink && s.estimate.bar <= claim.tolerance * claim.scale;
}

class Search {
 public:
  Search(Subject& subject, Probe& probe, const std::vector<Claim>& claims, bool confirm)
      : subject_(subject),
        probe_(probe),
        claims_(claims),
        confirm_(confirm),
        tracks_(claims.size()),
        best_(claims.size()) {}

  std::vector<Slope> run() {
    subject_.begin_search();
    // A power of two, so that steps are exact in binary.
    const double start = std::ldexp(1.0, std::ilogb(probe_.scale()) - 2);
    double h = series(start);
    if (!done() && rounding_limited()) series(start * 64);
    for (int i = 0; i < 3 && !done() && !hopeless(h); ++i) h = series(h / 4);
    return best_;
  }

 private:
  // One run of halving steps from h down; returns the last step.
  double series(double h) {
    for (Track& track : tracks_) track.clear();
    int rows = 0;
    for (int outside = 0; rows < kRowsAtMost;) {
      if (step(h)) {
        if (++rows >= kRowsAtLeast && converged()) break;
        h /= 2;
      } else {
        // Outside the domain of the function: log, sqrt.
        if (rows > 0 || ++outside > 24) break;
        h /= 4;
      }
    }
    for (std::size_t k = 0; k < tracks_.size(); ++k) take(k);
    return h;
  }

  bool step(double h) {
    const double forward = probe_.go(h);
    subject_.contract(plus_);
    if (!plus_.finite) return false;
    const double backward = -probe_.go(-h);
    subject_.contract(minus_);
    if (!minus_.finite || !(forward > 0) || !(backward > 0)) return false;
    for (std::size_t k = 0; k < tracks_.size(); ++k) {
      tracks_[k].add(forward, backward, plus_.sums[k], minus_.sums[k],
                     std::max(plus_.variances[k], minus_.variances[k]));
    }
    return true;
  }

  [[nodiscard]] bool converged() const {
    for (std::size_t k = 0; k < tracks_.size(); ++k) {
      const Estimate& e = tracks_[k].central.best();
      if (e.truncation > e.rounding && e.bar > 0.01 * claims_[k].tolerance * claims_[k].scale)
        return false;
    }
    return true;
  }

  // Keeps the better of what is known and the new series.
  void take(std::size_t k) {
    const Slope s = tracks_[k].slope(claims_[k].scale);
    Slope& best = best_[k];
    if (!s.known) return;
    const auto rank = [&](const Slope& x) {
      if (!x.known) return 0;
      if (x.kink) return 1;
      if (!exact_enough(x, claims_[k])) return 2;
      return agrees(x, claims_[k]) ? 4 : 3;
    };
    const int ours = rank(best);
    const int theirs = rank(s);
    if (theirs > ours || (theirs == ours && s.estimate.bar < best.estimate.bar)) best = s;
  }

  [[nodiscard]] bool done() const {
    for (std::size_t k = 0; k < best_.size(); ++k) {
      if (!exact_enough(best_[k], claims_[k])) {
        // A tensor without any gradient has no scale: rounding is then all there is to see.
        if (claims_[k].scale == 0 && best_[k].known && !best_[k].kink &&
            agrees(best_[k], claims_[k]))
          continue;
        return false;
      }
      if (confirm_ && !agrees(best_[k], claims_[k])) return false;
    }
    return true;
  }

  [[nodiscard]] bool rounding_limited() const {
    for (std::size_t k = 0; k < best_.size(); ++k) {
      const Slope& s = best_[k];
      if (s.known && !s.kink && s.estimate.bar > claims_[k].tolerance * claims_[k].scale &&
          s.estimate.rounding > s.estimate.truncation)
        return true;
    }
    return false;
  }

  // Steps below h would show rounding alone.
  [[nodiscard]] bool hopeless(double h) const {
    for (std::size_t k = 0; k < best_.size(); ++k) {
      const double deviation = std::sqrt(std::max(plus_.variances[k], minus_.variances[k]));
      const double scale = std::max(claims_[k].scale, std::abs(best_[k].estimate.value));
      if (!best_[k].known || deviation / h < 1e-3 * scale) return false;
    }
    return true;
  }

  Subject& subject_;
  Probe& probe_;
  const std::vector<Claim>& claims_;
  bool confirm_;
  std::vector<Track> tracks_;
  std::vector<Slope> best_;
  Contraction plus_;
  Contraction minus_;
};

}  // namespace

std::vector<Slope> measure(Subject& subject, Probe& probe, const std::vector<Claim>& claims,
                           bool confirm) {
  return Search(subject, probe, claims, confirm).run();
}

}  // namespace tapehead::detail
