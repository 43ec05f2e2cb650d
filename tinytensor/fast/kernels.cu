// Kernels for what would take CuPy several launches and passes over memory. `real` is float or double.
//
// Those over rows have a block for each row, with any number of threads that is a multiple of 32. A thread takes every
// blockDim.x-th element of the row, always the same ones, so that elements need no synchronisation, only sums do.

#ifndef ON_CPU  // where most tests compile these for a CPU, a block has one thread, which holds all the row

template <class T> __device__ T combined(T value, bool largest) {
    __shared__ T of_warps[32];
    const int lane = threadIdx.x % 32;
    for (int distance = 16; distance > 0; distance /= 2) {
        const T other = __shfl_xor_sync(0xffffffff, value, distance);
        value = largest ? fmax(value, other) : value + other;
    }
    __syncthreads();  // a former call may still be reading
    if (lane == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    const int warps = blockDim.x / 32;
    value = of_warps[lane < warps ? lane : 0];
    if (lane >= warps && !largest) value = 0;
    for (int distance = 16; distance > 0; distance /= 2) {
        const T other = __shfl_xor_sync(0xffffffff, value, distance);
        value = largest ? fmax(value, other) : value + other;
    }
    return value;
}

#else

template <class T> static T combined(T value, bool) { return value; }

#endif

#ifndef INFINITY  // compiled at run time, CUDA has no headers
#define INFINITY __int_as_float(0x7f800000)
#endif

template <class T> __device__ T block_sum(T value) { return combined(value, false); }
template <class T> __device__ T block_max(T value) { return combined(value, true); }

#define EACH(i, count) for (int i = threadIdx.x; i < (count); i += blockDim.x)
#define EVERYWHERE(i, count) \
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < (count); i += (long long)gridDim.x * blockDim.x)

extern "C" {

// ---- softmax, in place; a row of -inf becomes zeros

__global__ void softmax(real* x, int columns) {
    real* row = x + (long long)blockIdx.x * columns;
    real largest = -INFINITY;
    EACH(i, columns) largest = fmax(largest, row[i]);
    largest = block_max(largest);
    const real shift = largest == -INFINITY ? 0 : largest;
    real total = 0;
    EACH(i, columns) total += row[i] = exp(row[i] - shift);
    total = block_sum(total);
    if (total == 0) total = 1;
    EACH(i, columns) row[i] /= total;
}

// out * (g - sum(g * out)), in place of g
__global__ void softmax_gradient(real* g, const real* out, int columns) {
    const long long start = (long long)blockIdx.x * columns;
    real along = 0;
    EACH(i, columns) along += g[start + i] * out[start + i];
    along = block_sum(along);
    EACH(i, columns) g[start + i] = out[start + i] * (g[start + i] - along);
}

// ---- layer normalisation, in two passes

__global__ void layer_norm(const real* x, const real* weight, const real* bias, real* out, real* normal, real* scale,
                           int columns, int has_weight, int has_bias, real eps) {
    const long long start = (long long)blockIdx.x * columns;
    real mean = 0, missing = 0, variance = 0;
    EACH(i, columns) mean += x[start + i];
    mean = block_sum(mean) / columns;
    EACH(i, columns) missing += x[start + i] - mean;  // by rounding, which a variance much below the mean would feel
    mean += block_sum(missing) / columns;
    EACH(i, columns) variance += (x[start + i] - mean) * (x[start + i] - mean);
    const real square = block_sum(variance) / columns + eps;
    const real factor = 1 / sqrt(square) * (square / square);  // NaN, not 0, where squares overflow
    if (threadIdx.x == 0) scale[blockIdx.x] = factor;
    EACH(i, columns) {
        const real value = normal[start + i] = (x[start + i] - mean) * factor;
        out[start + i] = value * (has_weight ? weight[i] : 1) + (has_bias ? bias[i] : 0);
    }
}

// With h = g * weight: scale * (h - mean(h) - normal * mean(h * normal))
__global__ void layer_norm_gradient(const real* g, const real* normal, const real* scale, const real* weight,
                                    real* g_x, int columns, int has_weight) {
    const long long start = (long long)blockIdx.x * columns;
    real mean = 0, along = 0;
    EACH(i, columns) {
        const real h = g[start + i] * (has_weight ? weight[i] : 1);
        mean += h;
        along += h * normal[start + i];
    }
    mean = block_sum(mean) / columns;
    along = block_sum(along) / columns;
    EACH(i, columns) {
        const real h = g[start + i] * (has_weight ? weight[i] : 1);
        g_x[start + i] = scale[blockIdx.x] * (h - mean - normal[start + i] * along);
    }
}

// ---- sums of the rows of a matrix, in float64: first of some rows each, then of what came of it

// of x * y where there is a y
__global__ void sums_of_some_rows(const real* x, const real* y, double* sums, long long rows, long long columns,
                                  long long some) {
    EVERYWHERE(place, (rows + some - 1) / some * columns) {
        const long long first = place / columns * some, column = place % columns;
        const long long end = first + some < rows ? first + some : rows;
        const long long offset = first * columns + column;
        const int steps = (int)(end - first);
        double sum = 0;
        if (y) {
            #pragma unroll 8
            for (int i = 0; i < steps; ++i) sum += x[offset + i * columns] * y[offset + i * columns];
        } else {
            #pragma unroll 8
            for (int i = 0; i < steps; ++i) sum += x[offset + i * columns];
        }
        sums[place] = sum;
    }
}

__global__ void sum_of_sums(const double* sums, real* out, int count, long long columns) {
    EVERYWHERE(column, columns) {
        double sum = 0;
        #pragma unroll 8
        for (int i = 0; i < count; ++i) sum += sums[i * columns + column];
        out[column] = (real)sum;
    }
}

// ---- cross-entropy: what the loss of each row is made of, and its gradient

__global__ void cross_entropy(const real* logits, const long long* target, const real* weight, real* shift,
                              real* total, real* picked, real* spread_over, int columns, int has_weight,
                              int smoothed) {
    const real* row = logits + (long long)blockIdx.x * columns;
    real largest = -INFINITY, sum = 0, spread = 0;
    EACH(i, columns) largest = fmax(largest, row[i]);
    largest = block_max(largest);
    EACH(i, columns) {
        const real shifted = row[i] - largest;
        sum += exp(shifted);
        if (smoothed) spread += shifted * (has_weight ? weight[i] : 1);
    }
    sum = block_sum(sum);
    spread = block_sum(spread);
    if (threadIdx.x == 0) {
        shift[blockIdx.x] = largest;
        total[blockIdx.x] = sum;
        const long long place = target[blockIdx.x];  // one out of range is told of later, and must not be followed
        picked[blockIdx.x] = place >= 0 && place < columns ? row[place] - largest : 0;
        spread_over[blockIdx.x] = spread;
    }
}

// exp(logits - shift) * factor - spread * weight, and less `hit` at the target
__global__ void cross_entropy_gradient(const real* logits, const long long* target, const real* weight,
                                       const real* shift, const real* factor, const real* spread, const real* hit,
                                       real* gradient, int columns, int has_weight) {
    const int r = blockIdx.x;
    const long long start = (long long)r * columns;
    EACH(i, columns) {
        real value = exp(logits[start + i] - shift[r]) * factor[r] - spread[r] * (has_weight ? weight[i] : 1);
        if (i == target[r]) value -= hit[r];
        gradient[start + i] = value;
    }
}

// ---- dropout: the random bits of an element follow from the seed and its place (Salmon et al. 2011, Philox 4x32-10)

__global__ void bernoulli(unsigned char* out, long long count, unsigned long long seed,
                          const unsigned long long* place_of_seed, unsigned long long below) {
    if (place_of_seed) seed = *place_of_seed;
    EVERYWHERE(quad, (count + 3) / 4) {
        unsigned int c[4] = {(unsigned int)quad, (unsigned int)(quad >> 32), 0, 0};
        unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)(seed >> 32);
        for (int round = 0; round < 10; ++round) {
            const unsigned long long first = 0xD2511F53ull * c[0], second = 0xCD9E8D57ull * c[2];
            const unsigned int c1 = c[1], c3 = c[3];
            c[0] = (unsigned int)(second >> 32) ^ c1 ^ k0;
            c[1] = (unsigned int)second;
            c[2] = (unsigned int)(first >> 32) ^ c3 ^ k1;
            c[3] = (unsigned int)first;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        for (int j = 0; j < 4 && 4 * quad + j < count; ++j) out[4 * quad + j] = c[j] < below;
    }
}

__global__ void drop(const real* x, const unsigned char* keep, real* out, long long count, real scale) {
    EVERYWHERE(i, count) out[i] = keep[i] ? x[i] * scale : 0 * x[i];
}

// ---- ids out of range

__global__ void look_for_outside(const long long* ids, long long count, long long length, long long* found) {
    EVERYWHERE(i, count) if (ids[i] < 0 || ids[i] >= length) {
        found[0] = 1;  // any of several threads may be the last
        found[1] = ids[i];
    }
}

// ---- ReLU

__global__ void relu_gradient(const real* g, const real* out, real* gradient, long long count) {
    EVERYWHERE(i, count) gradient[i] = out[i] <= 0 ? 0 : g[i];
}

// ---- all parameters at once. Row t of a table holds the addresses of arrays of parameter t, each of as many elements,
// and ends[t] is how many elements one of them and those of the rows before have

#define OF_EACH(row, i, ends, rows)                                     \
    EVERYWHERE(place, ends[rows - 1])                                   \
        for (long long row = row_of(place, ends, rows), i = place - (row ? ends[row - 1] : 0), once = 1; once; once = 0)

__device__ inline long long row_of(long long place, const long long* ends, int rows) {
    int low = 0, high = rows - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (place < ends[middle]) high = middle; else low = middle + 1;
    }
    return low;
}

// theta, g, m and v
__global__ void adam(const long long* table, const long long* ends, int rows, real alpha, real beta1, real rest1,
                     real beta2, real rest2, real eps, real shrink, real penalty, real sign) {
    OF_EACH(row, i, ends, rows) {
        real* theta = (real*)table[4 * row];
        real* m = (real*)table[4 * row + 2];
        real* v = (real*)table[4 * row + 3];
        const real decay = penalty != 0 ? penalty * theta[i] : 0;
        const real g = sign * ((const real*)table[4 * row + 1])[i] + decay;
        m[i] = beta1 * m[i] + rest1 * g;
        v[i] = beta2 * v[i] + rest2 * g * g;
        theta[i] = shrink * theta[i] - alpha * m[i] / (sqrt(v[i]) + eps);
    }
}

// What each block found, in float64
__global__ void sum_of_squares(const long long* table, const long long* ends, int rows, double* sums) {
    double sum = 0;
    OF_EACH(row, i, ends, rows) {
        const double value = ((const real*)table[row])[i];
        sum += value * value;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void scale_all(const long long* table, const long long* ends, int rows, const real* factor) {
    OF_EACH(row, i, ends, rows)((real*)table[row])[i] *= *factor;
}

}  // extern "C"
