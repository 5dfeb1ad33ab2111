#!/usr/bin/env bash
# .ci/run        everything a change must pass, on a clean Debian 12 machine: style, warnings as errors, `./run test` on lavapipe,
#                sanitizers, SwiftShader, GPUs' compilers, the Python wheel. Some 40 minutes on two cores with nothing kept.
# .ci/run soak   that too, and what takes hours: all tests on SwiftShader and a newer Mesa, the GPUs' plans, TSan, libc++, Kotlin, Android,
#                and the tests with the labels `long` and `soak`. `./run soak` starts it. By hand, when an issue is finished.
# Stops at the first part that fails. Downloads, compiled objects and shaders that lavapipe has compiled are kept in $WEFT_CI_CACHE, by
# version and by content.
set -euo pipefail

soak=no
[[ ${1:-} != soak ]] || soak=yes

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cache=${WEFT_CI_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/weft-ci}
lavapipe=/usr/share/vulkan/icd.d/lvp_icd.$(uname -m).json
export CCACHE_DIR=$cache/ccache CCACHE_BASEDIR=$root CCACHE_COMPILERCHECK=content CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=3G
export CCACHE_SLOPPINESS=pch_defines,time_macros # without, ccache takes nothing that uses a precompiled header
export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
export MESA_SHADER_CACHE_DIR=$cache/mesa # with it, the tests of operations take 47 s instead of 250
cd "$root"

times=()
part() { # part NAME COMMAND ...
  local name=$1 start=$SECONDS
  shift
  printf '\n=== %s, after %d s\n' "$name" "$start"
  "$@"
  times+=("$(printf '%-28s %4d s' "$name" $((SECONDS - start)))")
}

# part_in_time SECONDS NAME COMMAND ...: a part that takes so long on a slow machine with nothing kept. It begins only if it would
# then have ended ten minutes before the 90 are over; `.ci/run soak` has no such limit.
part_in_time() {
  local needs=$1
  shift
  if [[ $soak == yes ]] || ((SECONDS + needs < 4800)); then
    part "$@"
  else
    printf '\nNOT RUN: %s. %d s have gone\n' "$1" "$SECONDS"
    times+=("$(printf '%-28s NOT RUN' "$1")")
  fi
}

# Parts are not called in `if` or `||`, where set -e would have no effect: every command of a part counts.
packages() {
  export DEBIAN_FRONTEND=noninteractive
  local as_root=()
  [[ $(id -u) -eq 0 ]] || as_root=(sudo)
  local wanted
  mapfile -t wanted < <(./run --list-packages)
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${wanted[@]}" mesa-vulkan-drivers git ccache clang-14 \
    clang-format-14 libclang-rt-14-dev clang-19 libc++-19-dev libc++abi-19-dev default-jdk-headless maven abigail-tools \
    haproxy nginx-light aapt zipalign apksigner >/dev/null
  [[ -f $lavapipe ]]
}

# Without the network, tests are fewer but say the same.
real_models() {
  local name
  for name in smollm2 gemma3-270m; do
    ./run model "$name" || printf 'NOT RUN: tests with the real model %s. It was not downloaded: see above\n' "$name"
  done
}

swiftshader() {
  local version folder work
  version=$(apt-cache policy chromium | sed -n 's/ *Candidate: //p')
  folder=$cache/swiftshader-$version
  if [[ ! -f $folder/vk_swiftshader_icd.json ]]; then
    work=$(mktemp -d)
    (cd "$work" && apt-get download chromium chromium-common)
    for package in "$work"/*.deb; do
      dpkg-deb --fsys-tarfile "$package" | tar -x -C "$work" --wildcards --wildcards-match-slash '*swiftshader*' 2>/dev/null || true
    done
    mkdir -p "$folder"
    find "$work" -name libvk_swiftshader.so -exec cp {} "$folder" \;
    find "$work" -name vk_swiftshader_icd.json -exec cp {} "$folder" \; # last: its presence says that all is there
    rm -rf "$work"
  fi
  ls "$folder/libvk_swiftshader.so" "$folder/vk_swiftshader_icd.json"
  swiftshader_icd=$folder/vk_swiftshader_icd.json
}

format() { git ls-files -z -- '*.cpp' '*.h' '*.hpp' '*.c' | xargs -0 clang-format-14 --dry-run -Werror; }

# configure FOLDER CMAKE_OPTIONS ...
# Little optimisation: these builds are compiled more often than they run. No precompiled headers: a file that does not
# include what it uses is found here.
configure() {
  local folder=$1
  shift
  cmake -S . -B "$folder" -G Ninja -DWEFT_WERROR=ON -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
    -DCMAKE_C_FLAGS_RELEASE=-O1 -DCMAKE_CXX_FLAGS_RELEASE=-O1 "$@" >/dev/null
}

# Tests of the release build only: thousands of tokens and the statistics of estimates, which take minutes on SwiftShader and with
# sanitizers, and a GPU's plan, whose shaders AMD's compiler compiles at the end.
release_only='^(pocket|head_tokens|estimate_errors)$|_as_gpu(_[0-9])?$'
# Single tests for which that is true, too: comparisons with real models, and a hundred texts by a schema.
long='*.ARealModel:HeadTest.RealModels:TiedTest.ARealTable:HeadTest.AHundredTexts*:*/*_untied'

# Several at once: a software driver compiles its shaders on one core, and some tests wait for a time to pass.
at_once=$(($(nproc) + 1))
run_ctest() { ctest --test-dir "$1" --output-on-failure --no-tests=error --parallel "$at_once" -LE "$left_out" "${@:2}"; }
left_out='soak|long'
[[ $soak == no ]] || left_out=soak

release_tests() { VK_DRIVER_FILES=$lavapipe ./run test --parallel "$at_once"; }
long_tests() { VK_DRIVER_FILES=$lavapipe ./run test --parallel "$at_once" -L 'soak|long'; }

# One build for the tests and the fuzzers, by clang: the release build and the thread sanitizer's are by gcc. The modules do not report
# their coverage, which would double the tests' time: fuzzing is ./run fuzz; here each target has its seeds and the inputs that once broke it.
# Tests that read bytes, hold state or serve requests; work of the device is left to the release build. Only the programs of these tests are built.
sanitizers() {
  local folder=build/ci/sanitizers tests programs targets
  tests='format|image|tokenizer|template|grammar|text_libraries|keep|convert|model_config|lookup|tied_tables|gpu|session|session_file|batch|layer_loader|soft|capi|faults|fuzz_.*'
  programs='PipedChat|Errors|Sessions|Text|Serve|ServeLimits|ServeTools|ServeChoices|ServeEmbeddings|ServeSlots|ServeResponses'
  configure "$folder" -DWEFT_SANITIZE=address,undefined -DWEFT_FUZZERS=ON -DWEFT_JAVA="$([[ $soak == yes ]] && echo ON || echo OFF)" \
    -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14
  if [[ $soak == yes ]]; then
    ninja --quiet -C "$folder"
    # Random requests watch the server's memory, of which AddressSanitizer keeps gigabytes for its many threads.
    sanitized "$folder" -E "$release_only|^(apps_ServeFuzz|apps_ServeHaproxy|compilers.*)\$"
  else
    mapfile -t targets < <(ninja -C "$folder" -t query all apps/all tests/all | awk '/input:/ { on = 1 } /outputs:/ { on = 0 } on && /^    / { print $1 }' |
      grep -E "^bin/(($tests)_test|weft|weft-make-model)\$|^tests/(fuzz|losable)|^lib/")
    ninja --quiet -C "$folder" "${targets[@]}"
    sanitized "$folder" -R "^($tests|apps_($programs))\$"
  fi
}

sanitized() { # sanitized FOLDER CTEST_OPTIONS ...
  ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 \
    LSAN_OPTIONS=suppressions=$root/tests/support/lsan.supp:print_suppressions=0 VK_DRIVER_FILES=$lavapipe \
    GTEST_FILTER=-$long:SweepTest.FilesFail:SweepTest.VulkanLosesTheDevice run_ctest "$@"
}

thread_sanitizer() {
  configure build/ci/tsan -DWEFT_SANITIZE=thread -DWEFT_APPS=OFF
  ninja --quiet -C build/ci/tsan session_threads_test
  TSAN_OPTIONS=suppressions=$root/tests/support/tsan.supp:halt_on_error=1:ignore_noninstrumented_modules=1 VK_DRIVER_FILES=$lavapipe \
    run_ctest build/ci/tsan -R session_threads
}

# Phones use libc++: the libraries compile with it, in a project that has Weft's sources within its own.
libcxx() {
  VK_DRIVER_FILES=$lavapipe python3 tests/install/install_test.py build/release source build/release/bin/weft-make-model build/ci/libcxx \
    -DCMAKE_BUILD_TYPE=Release -DWEFT_WERROR=ON -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_CXX_FLAGS=-stdlib=libc++ \
    -DCMAKE_C_FLAGS_RELEASE=-O0 -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19
}

# The very build that ./run uses; it keeps the options. Debian 12's glslang does not know cooperative matrices.
warnings() {
  local newer=()
  if XDG_CACHE_HOME=$cache apps/compilers/glslang.py --version >/dev/null; then
    newer=("-DWEFT_NEWER_GLSLANG=$root/apps/compilers/glslang.py")
  else
    printf 'NOT RUN: products by cooperative matrices, neither on a newer Mesa nor by compilers: see above\n'
  fi
  XDG_CACHE_HOME=$cache cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEFT_WERROR=ON -DWEFT_JAVA=ON "${newer[@]}" >/dev/null
  XDG_CACHE_HOME=$cache ninja --quiet -C build/release
}

# SwiftShader has other limits than lavapipe: no subgroup arithmetic of 8 lanes, other rounding, no timestamps. In every run: operations, the
# vocabulary table, the network and sessions, which the other tests are made of.
on_swiftshader() {
  local slow='HeadTest.TopPAlone*:HeadTest.CertifiedGives*:AttendTurnsTest.EqualsRopeAndAttend:GatherTest.EveryRowOfManySlices' chosen
  # It compiles each variant of rotate for ten seconds: AwkwardWidths has those without a norm.
  [[ $soak == yes ]] || slow+=':RotateTest.NormsStatesFirst:RotateTest.BeginsANorm*'
  chosen=(-R '^(ops_[0-9]|vocab|forward|forward_gpu_plan|session)$')
  [[ $soak == no ]] || chosen=(-L device -E "$release_only|^(session_disabled|sweep|recover|host_memory|apps_(Shared|RealModels|Serve.*))\$")
  VK_DRIVER_FILES=$swiftshader_icd GTEST_FILTER=-$long:*.StaysCloseIn*:$slow run_ctest build/release "${chosen[@]}"
  # A table on two drivers' devices at once.
  [[ $soak == no ]] || VK_DRIVER_FILES=$lavapipe:$swiftshader_icd WEFT_DEVICE=llvmpipe run_ctest build/release -R '^shards$'
}

# The wheel as pip makes it, installed beside numpy and mypy, with the tests that need these. CTest runs all others.
python_wheel() {
  local folder=$root/build/ci/python
  rm -rf "$folder"
  if ! python3 -m pip install --quiet --target "$folder" numpy mypy; then
    printf 'NOT RUN: the Python wheel. pip could not install numpy and mypy: see above\n'
    return
  fi
  python3 -m pip install --quiet --no-deps --target "$folder" ./runtime/bindings/python
  PYTHONPATH=$folder VK_DRIVER_FILES=$lavapipe python3 tests/bindings/python_test.py build/release/bin Arrays Declarations Page
  # The wheel's library saves a conversation; the release build's library continues it in Java.
  local javac
  javac=$(readlink -f "$(command -v javac)")
  WEFT_WHEEL=$folder WEFT_LIBRARY=$root/build/release/lib/libweft.so VK_DRIVER_FILES=$lavapipe \
    python3 tests/bindings/java_test.py build/release/bin "${javac%/bin/javac}" Java.test_a_conversation_goes_from_python_to_java_and_back
}

# Coroutines over the Java library of the release build, compiled by Maven. The first run downloads the compiler.
kotlin() {
  local status=0
  VK_DRIVER_FILES=$lavapipe python3 tests/bindings/kotlin_test.py build/release/lib "$cache/maven" || status=$?
  if [[ $status -eq 77 ]]; then
    printf 'NOT RUN: the Kotlin library. Maven could not get what it needs: see above\n'
    return
  fi
  return "$status"
}

# The Android packages, of Linux's libraries, and the demo app on Robolectric. The first run downloads Android 8 and 14: 500 MB.
android() {
  local status=0
  if [[ -n ${ANDROID_NDK_HOME:-} ]]; then
    WEFT_MAVEN=$cache/maven apps/android/pack.py build/ci/android || status=$?
    [[ $status -eq 0 || $status -eq 77 ]] || return "$status"
    status=0
  else
    printf 'NOT RUN: the Android libraries are not built. ANDROID_NDK_HOME names no NDK\n'
  fi
  WEFT_MAVEN=$cache/maven VK_DRIVER_FILES=$lavapipe python3 tests/bindings/android_test.py build/release || status=$?
  if [[ $status -eq 77 ]]; then
    printf 'NOT RUN: the Android app. Maven could not get what it needs: see above\n'
    return
  fi
  return "$status"
}

# Six GPUs' compilers against the budgets. Without Mesa's packages of that version it is not run.
compilers() {
  local status=0
  XDG_CACHE_HOME=$cache python3 apps/compilers/report.py build/release/bin --check ci || status=$?
  if [[ $status -eq 77 ]]; then
    printf "NOT RUN: the GPUs' compilers. Their drivers are not available: see above\n"
    return
  fi
  return "$status"
}

# The lavapipe of a newer Mesa, whose compiler and limits differ. All of the tests for it: ./run test -L soak -R newer_mesa
newer_mesa() {
  local status=0
  XDG_CACHE_HOME=$cache GTEST_FILTER=-$long python3 tests/tools/newer_mesa.py build/release/bin ops_test forward_test || status=$?
  # A GPU's plan, which has cooperative matrices there.
  [[ $status -ne 0 ]] || XDG_CACHE_HOME=$cache GTEST_FILTER=-$long:*.StaysCloseIn*:HeadTest.TopPAlone* WEFT_TEST_PLAN=gpu \
    python3 tests/tools/newer_mesa.py build/release/bin {forward,families,session,batch,head,seq2seq,encoders,policy}_test || status=$?
  if [[ $status -eq 77 ]]; then
    printf "NOT RUN: the tests on a newer Mesa. It is not available: see above\n"
    return
  fi
  return "$status"
}

