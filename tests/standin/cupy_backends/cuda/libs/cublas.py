"""Of cuBLAS what is called by its address: a library of that interface, compiled for the CPU."""

import ctypes

import cuda_on_cpu
import graphs_of_cupy

SOURCE = r"""
#include <cstring>
#include <functional>
#include <vector>

static std::vector<std::function<void()>> calls;
static void (*listener)(int) = nullptr;  // where it is set, calls are kept and it is told their number

static int call(std::function<void()> function) {
    if (!listener) {
        function();
        return 0;
    }
    calls.push_back(function);
    listener((int)calls.size() - 1);
    return 0;
}

// the nearest number with 10 bits in its fraction, ties to even
static float in_tf32(float x) {
    unsigned bits;
    std::memcpy(&bits, &x, 4);
    bits = (bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000;
    std::memcpy(&x, &bits, 4);
    return x;
}

// c = one * op(a) op(b) + zero * c, of matrices whose columns lie one after another
template <class T, bool is_rounded = false>
static void multiply(int how_a, int how_b, int m, int n, int k, const void* a, int lda, const void* b, int ldb,
                     void* c, int ldc) {
    const T *left = (const T*)a, *right = (const T*)b;
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i) {
            double sum = 0;
            for (int l = 0; l < k; ++l) {
                T x = left[how_a ? l + (long)i * lda : i + (long)l * lda];
                T y = right[how_b ? j + (long)l * ldb : l + (long)j * ldb];
                sum += is_rounded ? (double)in_tf32(x) * (double)in_tf32(y) : (double)x * (double)y;
            }
            ((T*)c)[i + (long)j * ldc] = (T)sum;
        }
}

extern "C" {

void listen(void (*function)(int)) { listener = function; }
void run(int number) { calls[number](); }
int cublasSetStream_v2(void*, void*) { return 0; }

int cublasGemmStridedBatchedEx(void* handle, int how_a, int how_b, int m, int n, int k, const void* one, const void* a,
                               int type_a, int lda, long long step_a, const void* b, int type_b, int ldb,
                               long long step_b, const void* zero, void* c, int type_c, int ldc, long long step_c,
                               int pairs, int compute, int algorithm) {
    const bool is_double = type_a == 1, is_half = type_a == 2;
    if (type_a != type_b || type_a != type_c || type_a < 0 || type_a > 2) return 15;
    const bool is_tf32 = compute == 77 && type_a == 0 && pairs == 1;
    if (compute != (is_double ? 70 : 68) && !is_tf32) return 15;
    if (is_double ? *(const double*)one != 1 || *(const double*)zero != 0
                  : *(const float*)one != 1 || *(const float*)zero != 0) return 7;
    if (lda < (how_a ? k : m) || ldb < (how_b ? n : k) || ldc < m) return 7;
    return call([=] {
        const int size = is_double ? 8 : is_half ? 2 : 4;
        for (int p = 0; p < pairs; ++p) {
            const char *left = (const char*)a + p * step_a * size, *right = (const char*)b + p * step_b * size;
            char* result = (char*)c + p * step_c * size;
            if (is_double) multiply<double>(how_a, how_b, m, n, k, left, lda, right, ldb, result, ldc);
            else if (is_tf32) multiply<float, true>(how_a, how_b, m, n, k, left, lda, right, ldb, result, ldc);
            else if (is_half) multiply<_Float16>(how_a, how_b, m, n, k, left, lda, right, ldb, result, ldc);
            else multiply<float>(how_a, how_b, m, n, k, left, lda, right, ldb, result, ldc);
        }
    });
}

int cublasGemmEx(void* handle, int how_a, int how_b, int m, int n, int k, const void* one, const void* a, int type_a,
                 int lda, const void* b, int type_b, int ldb, const void* zero, void* c, int type_c, int ldc,
                 int compute, int algorithm) {
    return cublasGemmStridedBatchedEx(handle, how_a, how_b, m, n, k, one, a, type_a, lda, 0, b, type_b, ldb, 0, zero, c,
                                      type_c, ldc, 0, 1, compute, algorithm);
}

}
"""

if cuda_on_cpu.COMPILER is None:
    raise ImportError("no C++ compiler")

_library = cuda_on_cpu.compiled(SOURCE)
__file__ = _library._name


@ctypes.CFUNCTYPE(None, ctypes.c_int)
def _listener(number):
    graphs_of_cupy.tape.append(lambda: _library.run(number))


def _listen(is_captured):
    _library.listen(_listener if is_captured else None)


graphs_of_cupy.listeners.append(_listen)
_listen(graphs_of_cupy.capturing())
