# headrace: `make help` lists what can be made and the variables.
# Sources are found by folder: a new .c file or test needs no line here.

VERSION := 0.1.0

PREFIX  ?= /usr/local
ONEDNN  ?= wheel
OBJCOPY ?= objcopy
OPT     ?= $(if $(SAN),-O2 -fno-omit-frame-pointer,-O3)

comma   := ,
BUILD   := build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
DEPS    := build/deps

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
.PRECIOUS: $(BUILD)/obj/%.o $(BUILD)/obj64/%.o

# --- Sources and products ---------------------------------------------------------------------------

LIB_SRC   := $(wildcard base/*.c image/*.c prep/*.c index/*.c binding/*.c)
TRAIN_SRC := $(wildcard train/*.c train/reference/*.c)
CPU_SRC   := $(wildcard train/cpu/*.c)
MPI_SRC   := $(wildcard train/mpi/*.c)
CUDA_SRC  := $(wildcard train/cuda/*.c)
CUDA_KERNELS  := $(wildcard train/cuda/*.cu)
CUDA_STANDINS := $(wildcard tests/cuda/*.c tests/cuda/*.cpp)
CMD_SRC   := $(wildcard cmd/*.c)
DEMO_SRC  := $(wildcard demo/*.c)
REF64_SRC := $(wildcard train/reference/*.c)
TEST_SRC   = $(filter-out $(if $(HAVE_CUDA),,tests/test_cuda_%),$(wildcard tests/test_*.c))
FUZZ_SRC  := $(wildcard tests/fuzz/*.c)

objects    = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
LIB_OBJ   := $(call objects,$(LIB_SRC))
TRAIN_OBJ := $(call objects,$(TRAIN_SRC))
CPU_OBJ   := $(call objects,$(CPU_SRC))
CUDA_OBJ  := $(call objects,$(CUDA_SRC))
PLAN_OBJ  := $(patsubst %,$(BUILD)/obj/train/cuda/%.o,descriptor device_table engine errors graph operation patterns plan_cache planner tune)
# Kernels for the GPU; the same sources for the CPU, and the CUDA libraries' names, for tests.
CUDA_GPU_OBJ  := $(CUDA_KERNELS:%.cu=$(BUILD)/obj/%.gpu.o)
CUDA_TEST_OBJ := $(CUDA_KERNELS:%.cu=$(BUILD)/obj/%.cu.o) $(addprefix $(BUILD)/obj/,$(addsuffix .o,$(basename $(CUDA_STANDINS))))
# What the kernels and the runtime's stand-in are tested with, without cuDNN and NCCL.
CUDART_TEST_OBJ := $(filter %.cu.o $(BUILD)/obj/tests/cuda/cudart_%,$(CUDA_TEST_OBJ))
CUDART_TESTS    := $(addprefix $(BUILD)/tests/test_cuda_,kernels standin update)
GPU_TESTS        = $(if $(HAVE_CUDA),$(addprefix $(BUILD)/gpu/test_cuda_,kernels update parity))
CMD_OBJ   := $(call objects,$(CMD_SRC))
DEMO_OBJ  := $(call objects,$(DEMO_SRC))
# The reference backend once more in double precision: the oracle of the tests.
REF64_OBJ := $(patsubst %.c,$(BUILD)/obj64/%.o,$(REF64_SRC))
REF64     := $(if $(REF64_SRC),$(BUILD)/reference_f64.o)
# Helpers that several test programs share.
SUPPORT_OBJ := $(call objects,$(wildcard tests/support/*.c))

LIBRARY := $(if $(LIB_SRC),$(BUILD)/libheadrace.so)
PROGRAM := $(if $(wildcard cmd/main.c),$(BUILD)/headrace)
DEMO    := $(if $(DEMO_SRC),$(BUILD)/make-demo)

ifdef T
TESTS      = $(foreach t,$(T),$(patsubst tests/%.c,$(BUILD)/tests/%,$(filter tests/test_$(t).c,$(TEST_SRC))))
CLI_TESTS := $(foreach t,$(T),$(wildcard tests/cli/$(t).sh))
else
TESTS      = $(patsubst tests/%.c,$(BUILD)/tests/%,$(TEST_SRC))
CLI_TESTS := $(filter-out tests/cli/lib.sh,$(wildcard tests/cli/*.sh))
endif
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz_%,$(FUZZ_SRC))

# --- Libraries --------------------------------------------------------------------------------------

PACKAGES := libarchive libjpeg libpng jansson libmd zlib
# The demonstration and the tests write meta.mat files with matio.
PACKAGES += matio
# Loaded when the first URL is met, and not linked.
LOADED   := libcurl
MISSING  := $(shell for p in $(PACKAGES) $(LOADED); do pkg-config --exists $$p || echo $$p; done)
NEEDS_NOTHING := help clean test test-peers demo fuzz lint format
ifneq ($(MISSING),)
ifneq ($(filter-out $(NEEDS_NOTHING),$(or $(MAKECMDGOALS),all)),)
$(error these libraries are missing: $(MISSING); install them with: scripts/setup.sh)
endif
endif

# oneDNN 3 for the CPU backend: the pinned wheel that scripts/setup.sh unpacks, the system's, or none.
ifeq ($(ONEDNN),wheel)
HAVE_ONEDNN := $(wildcard $(DEPS)/onednn/include/oneapi/dnnl/dnnl.h)
ONEDNN_FLAGS := -isystem $(DEPS)/onednn/include
ONEDNN_LIBS := -L$(DEPS)/onednn/lib -ldnnl -Wl,-rpath,'$$ORIGIN/deps/onednn/lib:$$ORIGIN/../deps/onednn/lib'
else ifeq ($(ONEDNN),system)
HAVE_ONEDNN := $(shell printf '%s\n' '\#include <oneapi/dnnl/dnnl_version.h>' \
    '\#if DNNL_VERSION_MAJOR != 3' '\#error' '\#endif' | $(CC) -E - >/dev/null 2>&1 && echo yes)
ONEDNN_LIBS := -ldnnl
else ifneq ($(ONEDNN),none)
$(error ONEDNN is "$(ONEDNN)"; it may be wheel, system or none)
endif
MODULES := $(if $(HAVE_ONEDNN),$(if $(CPU_SRC),$(BUILD)/headrace-cpu.so))

# MPI between machines: the compiler of the one whose launcher starts the program, or none.
MPICC ?= $(shell command -v mpicc)
HAVE_MPI := $(filter-out none,$(MPICC))
MODULES += $(if $(HAVE_MPI),$(BUILD)/headrace-mpi.so)

# The toolkit with cuDNN 9 and NCCL 2 for the CUDA backend: a folder, found by its nvcc, or none. No GPU is
# needed to build, and libcuda, which comes with a driver, is never linked.
CUDA ?= $(patsubst %/bin/nvcc,%,$(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc)))
ifneq ($(filter-out none,$(CUDA)),)
CUDA_FLAGS := -isystem $(CUDA)/include
HAVE_CUDA  := $(shell printf '%s\n' '\#include <cuda_runtime_api.h>' '\#include <cudnn.h>' '\#include <nccl.h>' \
    '\#if CUDART_VERSION < 13000 || CUDNN_MAJOR != 9 || NCCL_MAJOR != 2' '\#error' '\#endif' \
    | $(CC) $(CUDA_FLAGS) -E - >/dev/null 2>&1 && echo yes)
# Turing to Blackwell, and PTX for what comes after.
CUDA_ARCHITECTURES := 75 80 86 89 90 100 120
NVCC_FLAGS := -std=c++17 -O3 -lineinfo --fmad=false --threads 2 -Xcompiler -fPIC,-fvisibility=hidden,-fno-threadsafe-statics \
    -Werror all-warnings -Xptxas -Werror,-warn-spills \
    $(foreach a,$(CUDA_ARCHITECTURES),-gencode arch=compute_$(a),code=sm_$(a)) \
    -gencode arch=compute_$(lastword $(CUDA_ARCHITECTURES)),code=compute_$(lastword $(CUDA_ARCHITECTURES))
CUDA_LIBS := -L$(CUDA)/lib64 -lcudart_static -lcudnn -lnccl -Wl,-rpath,$(CUDA)/lib64 -lrt -ldl -lm
endif
# Sanitizers see the same host code in the tests, beside the stand-ins.
MODULES += $(if $(SAN),,$(if $(HAVE_CUDA),$(if $(wildcard train/cuda/backend.c),$(addprefix $(BUILD)/headrace-,cuda.so nodriver.so))))

# --- Flags ------------------------------------------------------------------------------------------

# Results must not depend on which multiplications a compiler fuses, so contraction is off everywhere.
# No -march: files for one instruction set carry it in their name and are chosen when the program runs.
HR_CPPFLAGS := -I. -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DHEADRACE_VERSION='"$(VERSION)"' \
    $(shell pkg-config --cflags $(PACKAGES) $(LOADED) 2>/dev/null) $(CPPFLAGS)
HR_CFLAGS := -std=gnu11 $(OPT) -g -fPIC -pthread -ffp-contract=off \
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
    -Werror=implicit-function-declaration -Werror=incompatible-pointer-types -Werror=int-conversion \
    $(if $(WERROR),-Werror) $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all) $(CFLAGS)
HR_CXXFLAGS := -std=gnu++17 $(OPT) -g -fPIC -pthread -ffp-contract=off -fno-exceptions -fno-rtti -Wall -Wextra \
    -Wshadow $(if $(WERROR),-Werror) $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all) $(CXXFLAGS)
HR_LDFLAGS := -pthread -Wl,--as-needed $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)
LIBS := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lm -ldl

ifneq ($(filter x86_64-%,$(shell $(CC) -dumpmachine)),)
%_avx2.o: FILE_FLAGS += -mavx2 -mfma -mf16c -mbmi -mbmi2 -mlzcnt -mpopcnt
%_avx512.o: FILE_FLAGS += -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vbmi -mavx512vbmi2 -mavx512vnni \
    -mavx512vpopcntdq -mavx512bf16 -mfma -mf16c -mbmi -mbmi2 -mlzcnt -mpopcnt
endif

# Program and modules carry a checksum of the interface between them and refuse another one's.
$(BUILD)/obj/train/%.o $(BUILD)/obj64/train/%.o: FILE_FLAGS += -include $(BUILD)/build_id.h
$(BUILD)/obj/train/cpu/%.o: FILE_FLAGS += -fopenmp -fvisibility=hidden $(ONEDNN_FLAGS)
$(BUILD)/obj/train/mpi/%.o: FILE_FLAGS += -fvisibility=hidden
$(BUILD)/obj/train/mpi/%.o $(BUILD)/headrace-mpi.so: private CC := OMPI_CC="$(CC)" MPICH_CC="$(CC)" $(HAVE_MPI)
$(BUILD)/obj/train/cuda/%.o: FILE_FLAGS += -fvisibility=hidden $(CUDA_FLAGS)
$(BUILD)/obj/tests/cuda/%.o $(BUILD)/obj/tests/test_cuda_%.o: FILE_FLAGS += $(CUDA_FLAGS)
$(BUILD)/obj64/%.o: FILE_FLAGS += -DREFERENCE_REAL=double

# --- Rules ------------------------------------------------------------------------------------------

.PHONY: all test test-peers check check-python wheel check-plans check-gpu gpu-bundle demo lint format fuzz fuzzers install clean help FORCE

all: $(LIBRARY) $(TRAIN_OBJ) $(CMD_OBJ) $(PROGRAM) $(DEMO) $(MODULES)
ifeq ($(HAVE_ONEDNN),)
	@echo "headrace-cpu.so is not built (ONEDNN=$(ONEDNN)): to train on the CPU, run scripts/setup.sh, then make again"
endif

# Commands are shown in full with V=1.
Q := $(if $(V),,@)
say = $(if $(V),,@echo "  $(1) $@")

define COMPILE
@mkdir -p $(@D)
$(call say,CC  )
$(Q)$(CC) $(HR_CPPFLAGS) $(HR_CFLAGS) $(FILE_FLAGS) -MMD -MP -c $< -o $@
endef

$(BUILD)/obj/%.o: %.c $(BUILD)/flags | $(BUILD)/build_id.h
	$(COMPILE)

# Kernels twice: as CUDA, and as C++ for the CPU.
$(BUILD)/obj/%.gpu.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,NVCC)
	$(Q)$(CUDA)/bin/nvcc -I. $(NVCC_FLAGS) -MD -MP -MF $(@:.o=.d) -c $< -o $@

$(BUILD)/obj/%.cu.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CXX )
	$(Q)$(CXX) -x c++ -I. $(HR_CXXFLAGS) $(FILE_FLAGS) -MMD -MP -c $< -o $@

$(BUILD)/obj/%.o: %.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CXX )
	$(Q)$(CXX) -I. $(HR_CXXFLAGS) $(FILE_FLAGS) -MMD -MP -c $< -o $@

$(BUILD)/obj64/%.o: %.c $(BUILD)/flags | $(BUILD)/build_id.h
	$(COMPILE)

# -z defs: the library needs nothing of the program.
$(BUILD)/libheadrace.so: $(LIB_OBJ)
	$(call say,LINK)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) $(if $(SAN),,-Wl$(comma)-z$(comma)defs) $^ -o $@ $(HR_LDFLAGS) $(LIBS)

# -rdynamic: modules use the program's train/ functions.
$(BUILD)/headrace: $(CMD_OBJ) $(TRAIN_OBJ) $(LIBRARY)
	$(call say,LINK)
	$(Q)$(CC) -rdynamic $^ -o $@ $(HR_LDFLAGS) -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../lib' $(LIBS)

# Draws the demonstration's archives; tests use it too.
$(BUILD)/make-demo: $(DEMO_OBJ) $(LIBRARY)
	$(call say,LINK)
	$(Q)$(CC) $^ -o $@ $(HR_LDFLAGS) -Wl,-rpath,'$$ORIGIN' $(LIBS)

$(BUILD)/headrace-cpu.so: $(CPU_OBJ) $(LIBRARY)
	$(call say,LINK)
	$(Q)$(CC) -shared -fopenmp $^ -o $@ $(HR_LDFLAGS) -Wl,-rpath,'$$ORIGIN:$$ORIGIN/..' $(ONEDNN_LIBS) -lm

$(BUILD)/headrace-mpi.so: $(call objects,$(MPI_SRC)) $(LIBRARY)
	$(call say,LINK)
	$(Q)$(CC) -shared $^ -o $@ $(HR_LDFLAGS) -Wl,-rpath,'$$ORIGIN:$$ORIGIN/..'

$(BUILD)/headrace-cuda.so: $(CUDA_OBJ) $(CUDA_GPU_OBJ) $(LIBRARY)
	$(call say,LINK)
	$(Q)$(CC) -shared $^ -o $@ $(HR_LDFLAGS) -Wl,-rpath,'$$ORIGIN:$$ORIGIN/..' $(CUDA_LIBS)

# One object whose only visible name is the entry, so that both precisions fit into one program.
$(BUILD)/reference_f64.o: $(REF64_OBJ)
	$(call say,LINK)
	$(Q)$(CC) -r -nostdlib $^ -o $@
	$(Q)$(OBJCOPY) --redefine-sym reference_backend_module=reference_f64_backend_module $@
	$(Q)$(OBJCOPY) --keep-global-symbol=reference_f64_backend_module $@

$(BUILD)/tests/test_demo: $(BUILD)/obj/demo/patterns.o

$(BUILD)/tests/test_%: $(BUILD)/obj/tests/test_%.o $(SUPPORT_OBJ) $(TRAIN_OBJ) $(REF64) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -rdynamic $^ -o $@ $(HR_LDFLAGS) -Wl,-rpath,'$$ORIGIN/..' -lcmocka $(LIBS)

# The kernels of the CPU backend are tested by themselves, without oneDNN.
$(BUILD)/tests/test_cpu_kernels: $(filter $(BUILD)/obj/train/cpu/kernels%,$(CPU_OBJ))

# The CUDA backend's own host code on the CPU: only the names of CUDA's libraries are others'.
$(filter-out $(BUILD)/tests/test_cuda_plans $(BUILD)/tests/test_cuda_trainer $(CUDART_TESTS),$(filter $(BUILD)/tests/test_cuda_%,$(TEST_SRC:%.c=$(BUILD)/%))): \
    $(CUDA_OBJ) $(CUDA_TEST_OBJ)

$(CUDART_TESTS): $(CUDART_TEST_OBJ)

# The trainer opens the backend as a module, with the stand-ins in it.
$(BUILD)/tests/test_cuda_trainer: | $(BUILD)/trial/headrace-cuda.so

# The kernels themselves, for all architectures, and the whole backend; these tests are skipped where no GPU is.
$(BUILD)/gpu/test_cuda_%: $(BUILD)/obj/tests/test_cuda_%.o $(TRAIN_OBJ) $(CUDA_GPU_OBJ) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -rdynamic $^ -o $@ $(HR_LDFLAGS) -Wl,-rpath,'$$ORIGIN/..' $(CUDA_LIBS) -lcmocka $(LIBS)

$(BUILD)/gpu/test_cuda_parity: $(CUDA_OBJ) $(addprefix $(BUILD)/obj/tests/support/,rig.o replicas.o session.o) $(REF64)

# The real cuDNN makes the backend's plans for described devices; it looks for a driver, which has no devices.
$(BUILD)/tests/test_cuda_plans: $(PLAN_OBJ) | $(BUILD)/headrace-nodriver.so
$(BUILD)/tests/test_cuda_plans: LIBS += $(CUDA_LIBS)

# Its soname is what cuDNN asks the loader for.
$(BUILD)/headrace-nodriver.so: $(BUILD)/obj/train/nodriver/driver.o
	$(call say,LINK)
	$(Q)$(CC) -shared -Wl,-soname,libcuda.so $^ -o $@ $(HR_LDFLAGS)

$(BUILD)/tests/test_ema: | $(if $(HAVE_CUDA),$(BUILD)/trial/headrace-cuda.so)

# The same module for tests of what runs it: on the CPU, by stand-ins.
$(BUILD)/trial/headrace-cuda.so: $(CUDA_OBJ) $(CUDA_TEST_OBJ) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -shared $^ -o $@ $(HR_LDFLAGS) -Wl,-rpath,'$$ORIGIN/..' -ldl -lm

BUNDLE_SCRIPTS := $(wildcard scripts/gpu_*)
# What scripts/gpu_check.sh takes to a machine with a GPU.
$(BUILD)/gpu/bundle.tar.gz: $(PROGRAM) $(BUILD)/headrace-cuda.so $(GPU_TESTS) $(BUILD)/tests/bench_backend $(BUNDLE_SCRIPTS)
	@BUILD=$(BUILD) scripts/gpu_bundle.sh $(BUILD)/gpu/bundle $(filter %.so,$^) $(filter $(BUILD)/gpu/% $(BUILD)/tests/%,$^)
	@tar -C $(@D) -czf $@ bundle
	@du -h $@

# The same with the stand-ins, to try the script where no GPU is.
$(BUILD)/trial/bundle/gpu_check.sh: $(PROGRAM) $(DEMO) $(BUILD)/trial/headrace-cuda.so $(GPU_TESTS:$(BUILD)/gpu/%=$(BUILD)/tests/%) \
    $(BUILD)/tests/bench_backend $(BUNDLE_SCRIPTS)
	@BUILD=$(BUILD) RECORDS=drawn scripts/gpu_bundle.sh $(@D) $(filter %.so,$^) $(filter $(BUILD)/tests/%,$^)

$(BUILD)/tests/bench_%: $(BUILD)/obj/tests/bench_%.o $(TRAIN_OBJ) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -rdynamic $^ -o $@ $(HR_LDFLAGS) -Wl,-rpath,'$$ORIGIN/..' $(LIBS)

$(BUILD)/fuzz_%: $(BUILD)/obj/tests/fuzz/%.o $(TRAIN_OBJ) $(LIB_OBJ)
	$(call say,LINK)
	$(Q)$(CC) $^ -o $@ $(HR_LDFLAGS) -fsanitize=fuzzer $(LIBS)

# Writes the text $(1) to the target, only when it differs from what stands there.
define UPDATE
@mkdir -p $(@D)
@printf '%s\n' $(1) | cmp -s - $@ || printf '%s\n' $(1) >$@
endef

$(BUILD)/flags: FORCE
	$(call UPDATE,'$(subst ','\'',$(CC) $(HR_CPPFLAGS) $(HR_CFLAGS) $(HR_CXXFLAGS) $(ONEDNN) $(MPICC) $(CUDA) $(NVCC_FLAGS))')

$(BUILD)/build_id.h: FORCE
	$(call UPDATE,'#define HEADRACE_BUILD_ID "$(shell \
	    cat $(wildcard train/backend*.h train/comm*.h train/launch.h train/logits.h train/network.h train/stepping.h image/*.h \
	    base/*.h) \
	    /dev/null | sha256sum | cut -c1-16)"')

# Whole jobs use all cores when no -j was given.
JOBS = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

test:
	@scripts/setup.sh --test
	@$(MAKE) $(JOBS) --no-print-directory check

TRIALS = $(if $(filter tests/cli/gpu_check.sh,$(CLI_TESTS)),$(BUILD)/trial/bundle/gpu_check.sh) \
    $(if $(filter tests/cli/cuda_files.sh tests/cli/cuda_ranks.sh tests/cli/evaluate.sh,$(CLI_TESTS)),$(BUILD)/trial/headrace-cuda.so)
check: all $(TESTS) $(if $(HAVE_CUDA),$(TRIALS))
	@BUILD=$(BUILD) T="$(T)" scripts/run_tests.sh $(TESTS) $(CLI_TESTS)

# The Python of the package's tests: one that has NumPy and Pillow. Give another with PYTHON=….
PYTHON ?= $(shell for p in python3 /usr/bin/python3; do $$p -c 'import numpy, PIL' 2>/dev/null && echo $$p && exit; done; echo python3)

check-python: $(LIBRARY) $(PROGRAM)
	@HEADRACE_LIBRARY=$(abspath $(LIBRARY)) HEADRACE_BIN=$(abspath $(PROGRAM)) PYTHONPATH=python \
	    PYTHONDONTWRITEBYTECODE=1 $(PYTHON) python/tests/run.py $(T)

test-peers:
	@scripts/setup.sh --peers
	@$(MAKE) $(JOBS) --no-print-directory check-python PYTHON=$(DEPS)/peers/bin/python

wheel: $(LIBRARY)
	@HEADRACE_LIBRARY=$(abspath $(LIBRARY)) $(PYTHON) -m pip wheel --quiet --no-deps --no-build-isolation -w build/dist ./python
	@ls build/dist/*.whl

check-plans: $(BUILD)/tests/test_cuda_plans
	@HEADRACE_PLANS=all $<

gpu-bundle: $(if $(HAVE_CUDA),$(BUILD)/gpu/bundle.tar.gz)
	@$(if $^,true,echo "there is nothing to check on a GPU: no CUDA toolkit was found (CUDA=$(CUDA))")

check-gpu: $(GPU_TESTS)
	@$(if $^,BUILD=$(BUILD) scripts/run_tests.sh $^,echo "the CUDA kernels are not built: no CUDA toolkit was found (CUDA=$(CUDA))")

demo:
	@scripts/setup.sh
	@$(MAKE) $(JOBS) --no-print-directory all
	@scripts/demo.sh

format:
	@clang-format -i $(wildcard $(addsuffix /*.[ch],base image prep index binding train train/* cmd demo tests tests/*) train/cuda/*.cu*)

lint:
	@CUDA_FLAGS='$(if $(HAVE_CUDA),$(CUDA_FLAGS))' scripts/check_includes.sh
	@scripts/check_style.sh

fuzz:
	@scripts/setup.sh --test
	@$(MAKE) $(JOBS) --no-print-directory CC=clang SAN=fuzzer-no-link,address BUILD=build/fuzz fuzzers

fuzzers: $(FUZZERS)
ifdef FUZZ_SECONDS
	@scripts/run_fuzz.sh $(FUZZ_SECONDS) $(FUZZERS)
endif

ROOT := $(DESTDIR)$(PREFIX)
# Headers that call themselves private stay here.
PUBLIC_HEADERS = $(shell grep -Li '[:;/*] private to ' $(wildcard base/*.h image/*.h prep/*.h index/*.h binding/*.h))
install: all
	install -d $(ROOT)/bin $(ROOT)/lib/headrace $(ROOT)/lib/pkgconfig $(ROOT)/share/headrace/recipes
	install -m 755 $(PROGRAM) $(ROOT)/bin/
	install -m 755 $(LIBRARY) $(ROOT)/lib/
	install -m 644 $(wildcard train/recipes/*.recipe) $(ROOT)/share/headrace/recipes/
	@for header in $(PUBLIC_HEADERS); do \
	    install -D -m 644 $$header $(ROOT)/include/headrace/$$header || exit 1; done
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' scripts/headrace.pc.in >$(ROOT)/lib/pkgconfig/headrace.pc
ifneq ($(MODULES),)
	install -m 755 $(MODULES) $(ROOT)/lib/headrace/
ifeq ($(ONEDNN),wheel)
	install -m 755 $(DEPS)/onednn/lib/libdnnl.so.3 $(ROOT)/lib/headrace/
	install -D -m 644 -t $(ROOT)/share/doc/headrace/onednn $(wildcard $(DEPS)/onednn/share/doc/onednn/*)
endif
endif

# The libraries in build/deps stay: they are not ours to make again.
clean:
	@rm -rf $(filter-out $(DEPS),$(wildcard build/*))

help:
	@echo "make                 the program, the library and the modules, in build/"
	@echo "make demo            sets up, makes a small data set, prepares, packs, trains and reports"
	@echo "make test [T=NAME]   sets up, then runs all tests, or tests/test_NAME.c and tests/cli/NAME.sh"
	@echo "make check-python    tests of the Python package; T=index runs python/tests/test_index.py, PYTHON=… another Python"
	@echo "make test-peers      sets up PyTorch, DALI and timm, then runs them beside these"
	@echo "make wheel           the Python package with the library in it, in build/dist"
	@echo "make check-plans     cuDNN's plans for every layer, type and described device (half an hour)"
	@echo "make check-gpu       builds the CUDA kernels for all architectures; tests them where a GPU is"
	@echo "make gpu-bundle      what scripts/gpu_check.sh needs on a machine with a GPU: build/gpu/bundle.tar.gz"
	@echo "make lint            checks the direction of includes and the style"
	@echo "make format          lets clang-format rewrite the sources"
	@echo "make fuzz            builds the fuzz targets; FUZZ_SECONDS=N also runs each for N seconds"
	@echo "make install [PREFIX=$(PREFIX)] [DESTDIR=]"
	@echo "make clean           removes build/ except build/deps"
	@echo "Variables: SAN=address,undefined  ONEDNN=wheel|system|none  CUDA=FOLDER|none  MPICC=mpicc|none  WERROR=1  V=1  CC CPPFLAGS CFLAGS LDFLAGS OPT"

-include $(shell find $(BUILD)/obj $(BUILD)/obj64 -name '*.d' 2>/dev/null)
