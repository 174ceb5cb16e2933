# The stand-in CUDA runtime, built once per major: same sources, two ABIs, two sonames.

CUDART_SOURCES := $(sort $(wildcard $(SIM)/runtime/*.c))
CUDART_CFLAGS  := -I$(TOP)/include -I$(SIM)

define cudart_product
CUDART_OBJECTS_$(1) := $$(patsubst $$(SIM)/runtime/%.c,$$(SIM_BUILD)/cudart$(1)/%.o,$$(CUDART_SOURCES))

$$(SIM_BUILD)/cudart$(1)/%.o: $$(SIM)/runtime/%.c
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $$(CUDART_CFLAGS) -DNVS_CUDART_MAJOR=$(1) -MMD -MP -c $$< -o $$@

# Every symbol carries the version that programs linked with NVIDIA's runtime ask for.
$$(SIM_BUILD)/cudart$(1)/versions.map:
	@mkdir -p $$(@D)
	printf 'libcudart.so.$(1) { global: cuda*; __cuda*; local: *; };\n' > $$@

$$(OUT)/sim/libcudart.so.$(1): $$(CUDART_OBJECTS_$(1)) $$(SIM_BUILD)/cudart$(1)/versions.map
	@mkdir -p $$(@D)
	$$(CC) -shared -Wl,-soname,libcudart.so.$(1) -Wl,--version-script=$$(SIM_BUILD)/cudart$(1)/versions.map \
	    -Wl,-Bsymbolic $$(if $$(SAN),,-Wl,-z,defs) $$(ALL_LDFLAGS) $$(CUDART_OBJECTS_$(1)) -o $$@ -ldl -lpthread

PRODUCTS += $$(OUT)/sim/libcudart.so.$(1)
endef

$(eval $(call cudart_product,12))
$(eval $(call cudart_product,13))

# Programs that use the runtime, one binary per check and major; tests/simgpu runs them on simulated cards.
CUDART_CHECKS := devices memory launch graph broken
define cudart_check
$$(BUILD)/checks/cudart$(2)_$(1): $$(TOP)/../tests/native/cudart_$(1).c $$(OUT)/sim/libcudart.so.$(2)
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $$(CUDART_CFLAGS) -DNVS_CUDART_MAJOR=$(2) -MMD -MP $$< $$(OUT)/sim/libcudart.so.$(2) $$(ALL_LDFLAGS) -lpthread -o $$@
CHECKS += $$(BUILD)/checks/cudart$(2)_$(1)
endef

$(foreach major,12 13,$(foreach check,$(CUDART_CHECKS),$(eval $(call cudart_check,$(check),$(major)))))
