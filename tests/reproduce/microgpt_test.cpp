// Against a transcription in PyTorch: scripts/fixtures/microgpt.py.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "reproduce/microgpt.hpp"
#include "support/catch.hpp"

using namespace tapehead;

namespace {

#include "reproduce/microgpt_names.inc"
#include "reproduce/microgpt_words.inc"

// f64 sums in another order differ by about 1e-16; the steps make more of it, but not 1e-9.
void check_losses(const std::vector<double>& ours, const double* theirs) {
  for (std::size_t step = 0; step < ours.size(); ++step) {
    CAPTURE(step);
    REQUIRE(std::abs(ours[step] - theirs[step]) < 1e-9);
  }
}

}  // namespace

TEST_CASE("microgpt on made-up words has the losses and samples of PyTorch", "[reproduce]") {
  const RunConfig config = detail::microgpt_config();
  const std::vector<std::string> words = detail::made_up_words();
  REQUIRE(words.size() == 200);
  const detail::MicrogptResult result = detail::run_microgpt(words, config, 20);
  REQUIRE(result.losses.size() == std::size(kWordsLosses));
  check_losses(result.losses, kWordsLosses);
  REQUIRE(result.samples.size() == std::size(kWordsSamples));
  for (std::size_t i = 0; i < result.samples.size(); ++i) {
    CHECK(result.samples[i] == kWordsSamples[i]);
  }
}

// The file of names is not part of the project: see data/README.md.
TEST_CASE("microgpt on names.txt has the losses of PyTorch and the published names",
          "[reproduce]") {
  const char* path = std::getenv("TAPEHEAD_NAMES");
  if (path == nullptr) return;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::vector<std::string> names = detail::documents_of(text);
  REQUIRE(names.size() == 32'033);
  const detail::MicrogptResult result = detail::run_microgpt(names, detail::microgpt_config(), 20);
  check_losses(result.losses, kNamesLosses);
  std::istringstream published(
      "kamon ann karai jaire vialan karia yeran anna areli kaina konna keylen liole alerin earan "
      "lenne kana lara alela anton");
  const std::vector<std::string> wanted{std::istream_iterator<std::string>(published), {}};
  CHECK(result.samples == wanted);
  CHECK(std::vector<std::string>(std::begin(kNamesSamples), std::end(kNamesSamples)) == wanted);
}

TEST_CASE("Documents are lines without the blanks around them", "[reproduce]") {
  const std::vector<std::string> wanted{"emma", "ann lee", "zoë"};
  CHECK(detail::documents_of("emma\n\n  \t\n ann lee \r\nzoë") == wanted);
  CHECK(detail::documents_of("").empty());
}

TEST_CASE("The made-up words have all letters, and some do not fit the block", "[reproduce]") {
  std::set<char> letters;
  std::size_t longest = 0;
  for (const std::string& word : detail::made_up_words()) {
    letters.insert(word.begin(), word.end());
    longest = std::max(longest, word.size());
  }
  CHECK(letters.size() == 26);
  CHECK(longest > 16);
}
