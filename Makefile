# Each target is a line or two over scripts/, CMake and CTest; everything is built in build/.
PREFIX ?= /usr/local

all:
	@scripts/install-deps.sh program
	@scripts/build.sh -DTAPEHEAD_EXAMPLES=ON

test:
	@scripts/install-deps.sh test
	@scripts/build.sh -DTAPEHEAD_TESTS=ON -DTAPEHEAD_EXAMPLES=ON && scripts/test.sh

demo:
	@scripts/install-deps.sh program && scripts/build.sh --target tapehead_cli
	@build/bin/tapehead train reverse

# All published results whose data are there; DATA: folder of the files of data/README.md.
DATA ?= data
reproduce:
	@scripts/install-deps.sh program && scripts/build.sh --target tapehead_cli
	@build/bin/tapehead reproduce --all --data $(DATA)

bench:
	@scripts/install-deps.sh bench && scripts/build.sh -DTAPEHEAD_BENCH=ON --target bench_ops bench_step bench_attention
	@build/bin/bench_step && build/bin/bench_attention && build/bin/bench_ops

gradcheck:
	@scripts/install-deps.sh program && scripts/build.sh --target tapehead_cli
	@build/bin/tapehead gradcheck --write README.md

format:
	@scripts/install-deps.sh format && scripts/format.sh

lint:
	@scripts/install-deps.sh lint && scripts/build.sh -DTAPEHEAD_EXAMPLES=ON && scripts/lint.sh

install: all
	cmake --install build --prefix $(PREFIX)

clean:
	rm -rf build

.PHONY: all test demo reproduce bench gradcheck format lint install clean
