#include "train/cuda/elements.cuh"

/* The optimiser over the arena: a look for gradients that are not finite (and LARS's norms), the
 * update itself, the state's step. A block of threads takes one block of the arena. */

/* The workspace: LARS's sums of squares of each block, |w|² first and then |g|², and the rate of
 * each segment. */
static double *norms_of(const struct update_arena *arena)
{
    return static_cast<double *>(arena->workspace);
}

static float *segment_rates_of(const struct update_arena *arena)
{
    return reinterpret_cast<float *>(norms_of(arena) + 2 * (size_t)arena->block_count);
}

size_t kernel_update_workspace_bytes(uint32_t block_count, uint32_t segment_count)
{
    return 2 * (size_t)block_count * sizeof(double) + segment_count * sizeof(float);
}

/* Where this thread's four elements are. */
__device__ static inline uint64_t place_in_arena(void)
{
    return (uint64_t)blockIdx.x * KERNEL_BLOCK + 4 * (uint64_t)threadIdx.x;
}

__device__ static inline float rate_of(const struct update_state *state, const float *rates,
                                       uint64_t rate_count)
{
    return rates[state->applied < rate_count ? state->applied : rate_count - 1];
}

/* state->found = the first segment with a gradient that is not finite. */
__global__ static void update_check(const float *gradients, const uint32_t *block_segments,
                                    struct update_state *state)
{
    float gradient[4];
    load_four(gradients, place_in_arena(), UINT64_MAX, gradient);
    int bad = 0;
    for (int j = 0; j < 4; j++)
        bad |= !isfinite(gradient[j]);
    if (__syncthreads_or(bad) && threadIdx.x == 0)
        atomicMin(&state->found, block_segments[blockIdx.x]);
}

__global__ static void update_norms(const float *values, const float *gradients,
                                    const struct update_state *state, double *norms)
{
    const float unscale = 1 / state->loss_scale;
    float value[4], gradient[4];
    load_four(values, place_in_arena(), UINT64_MAX, value);
    load_four(gradients, place_in_arena(), UINT64_MAX, gradient);
    double of_values = 0, of_gradients = 0;
    for (int j = 0; j < 4; j++) {
        double g = (double)(gradient[j] * unscale);
        of_values += (double)value[j] * (double)value[j];
        of_gradients += g * g;
    }
    of_values = block_sum(of_values);
    of_gradients = block_sum(of_gradients);
    if (threadIdx.x == 0) {
        norms[blockIdx.x] = of_values;
        norms[gridDim.x + blockIdx.x] = of_gradients;
    }
}

/* A block a segment: rate · t. */
__global__ static void update_segment_rates(struct update_config config,
                                            const struct arena_segment *segments,
                                            const double *norms, uint32_t block_count,
                                            const struct update_state *state, const float *rates,
                                            uint64_t rate_count, float *segment_rates)
{
    const struct arena_segment segment = segments[blockIdx.x];
    double of_values = 0, of_gradients = 0;
    for (uint32_t i = threadIdx.x; i < segment.block_count; i += BLOCK_THREADS) {
        of_values += norms[segment.first_block + i];
        of_gradients += norms[block_count + segment.first_block + i];
    }
    of_values = sqrt(block_sum(of_values));
    of_gradients = sqrt(block_sum(of_gradients));
    if (threadIdx.x != 0)
        return;
    const double decay = segment.decays ? (double)config.weight_decay : 0;
    double trust = 1;
    if (segment.adapts && of_values > 0 && of_gradients > 0)
        trust = (double)config.trust * of_values /
                (of_gradients + decay * of_values + (double)config.epsilon);
    segment_rates[blockIdx.x] = (float)((double)rate_of(state, rates, rate_count) * trust);
}

/* The new w and v of one element. `inner`: LARS's rate, within the momentum; `outer`: SGD's. */
__device__ static inline void move(const struct update_config &config, float decay, float inner,
                                   float outer, float gradient, float *value, float *momentum)
{
    float g = inner * (gradient + decay * *value);
    float v = config.momentum * *momentum + g;
    *momentum = v;
    *value -= outer * (config.nesterov ? g + config.momentum * v : v);
}

/* w, v and the copy in the type of the activations. */
template <class T>
__global__ static void update_apply(struct update_config config, struct update_arena arena,
                                    const float *segment_rates)
{
    const uint64_t i = place_in_arena();
    const struct update_state *state = arena.state;
    if (state->found != KERNEL_NO_SEGMENT)
        return;
    const uint32_t segment = arena.block_segments[blockIdx.x];
    const float decay = arena.segments[segment].decays ? config.weight_decay : 0;
    const float unscale = 1 / state->loss_scale;
    const bool lars = config.kind == KERNEL_LARS;
    const float inner = lars ? segment_rates[segment] : 1;
    const float outer = lars ? 1 : rate_of(state, arena.rates, arena.rate_count);
    float value[4], gradient[4], momentum[4];
    load_four(arena.values, i, UINT64_MAX, value);
    load_four(arena.gradients, i, UINT64_MAX, gradient);
    load_four(arena.momenta, i, UINT64_MAX, momentum);
    for (int j = 0; j < 4; j++)
        move(config, decay, inner, outer, gradient[j] * unscale, &value[j], &momentum[j]);
    store_four(arena.values, i, UINT64_MAX, value);
    store_four(arena.momenta, i, UINT64_MAX, momentum);
    if (arena.io)
        store_four(static_cast<T *>(arena.io), i, UINT64_MAX, value);
}

__device__ static void scale_move(const struct update_config &config, bool applied,
                                  struct update_state *state)
{
    if (!config.dynamic_scale)
        return;
    state->since_growth = applied ? state->since_growth + 1 : 0;
    if (!applied)
        state->loss_scale /= 2;
    if (state->since_growth < config.grown_after)
        return;
    state->since_growth = 0;
    if (isfinite(state->loss_scale * 2))
        state->loss_scale *= 2;
}

/* One thread. */
__global__ static void update_finish(struct update_config config, struct update_arena arena)
{
    struct update_state *state = arena.state;
    const bool applied = state->found == KERNEL_NO_SEGMENT;
    if (state->last) {
        state->last->applied = applied;
        state->last->learning_rate = rate_of(state, arena.rates, arena.rate_count);
        state->last->loss_scale = state->loss_scale;
        state->last = nullptr;
    }
    if (applied) {
        state->applied++;
        state->in_a_row = 0;
    } else {
        state->skipped++;
        state->in_a_row++;
        state->bad_segment = state->found;
        state->found = KERNEL_NO_SEGMENT;
    }
    scale_move(config, applied, state);
    state->learning_rate = rate_of(state, arena.rates, arena.rate_count);
}

static cudaError_t lars_rates(const struct update_config *config, const struct update_arena *arena,
                              cudaStream_t stream)
{
    cudaError_t error = LAUNCH(update_norms, arena->block_count, BLOCK_THREADS, stream,
                               arena->values, arena->gradients, arena->state, norms_of(arena));
    if (error != cudaSuccess)
        return error;
    return LAUNCH(update_segment_rates, arena->segment_count, BLOCK_THREADS, stream, *config,
                  arena->segments, norms_of(arena), arena->block_count, arena->state, arena->rates,
                  arena->rate_count, segment_rates_of(arena));
}

cudaError_t kernel_update(const struct update_config *config, const struct update_arena *arena,
                          cudaStream_t stream)
{
    if (arena->block_count == 0 || arena->rate_count == 0)
        return cudaErrorInvalidValue;
    cudaError_t error = LAUNCH(update_check, arena->block_count, BLOCK_THREADS, stream,
                               arena->gradients, arena->block_segments, arena->state);
    if (error == cudaSuccess && config->kind == KERNEL_LARS)
        error = lars_rates(config, arena, stream);
    if (error != cudaSuccess)
        return error;
    error = with_type(arena->io_type, [&](auto element) {
        typedef decltype(element) T;
        return LAUNCH((update_apply<T>), arena->block_count, BLOCK_THREADS, stream, *config, *arena,
                      segment_rates_of(arena));
    });
    if (error != cudaSuccess)
        return error;
    return LAUNCH(update_finish, 1, 1, stream, *config, *arena);
}
