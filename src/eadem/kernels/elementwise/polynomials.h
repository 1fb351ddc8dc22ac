#pragma once

// Made by scripts/elementwise_polynomials.py. A comment is the largest relative error of the function that is served.

namespace eadem::kernels::polynomials {

// exp(r) = 1 + r + r^2 p(r), |r| <= ln2 / 2; also good for expm1.
// 2^-54.4
inline constexpr double kExp[] = {
    0x1.0000000000001p-1,  0x1.5555555555556p-3,  0x1.5555555553cd3p-5,  0x1.1111111110987p-7,  0x1.6c16c178c3c40p-10,
    0x1.a01a01a7e6841p-13, 0x1.a019b83494791p-16, 0x1.71de0d2924871p-19, 0x1.289286301b0dep-22, 0x1.af39e5ac082a8p-26};
// 2^-42.3
inline constexpr double kExpShort[] = {0x1.fffffffffdfa5p-2,  0x1.5555555554f74p-3,  0x1.5555556611b65p-5,
                                       0x1.1111111726974p-7,  0x1.6c166adf3cf4fp-10, 0x1.a019c2b21cd5bp-13,
                                       0x1.a13866e691e5dp-16, 0x1.72ae79a96fd9cp-19};
// 2^-25.3
inline constexpr float kExpFloat[] = {0x1.0000000000000p-1f, 0x1.5554dc0000000p-3f, 0x1.5555180000000p-5f,
                                      0x1.120ce40000000p-7f, 0x1.6d127e0000000p-10f};
// log((1 + s) / (1 - s)) = 2 s + s z p(z), z = s^2, |s| <= (sqrt2 - 1) / (sqrt2 + 1).
// 2^-57.4
inline constexpr double kLog[] = {0x1.5555555555558p-1, 0x1.9999999994e76p-2, 0x1.2492492e6dfddp-2,
                                  0x1.c71c6247410e3p-3, 0x1.7462e17b4cdd0p-3, 0x1.39f8963ccbdc2p-3,
                                  0x1.2b9f7fb3de73fp-3};
// atan(t) = t + t z p(z), |t| <= tan(pi/8).
// 2^-57.0
inline constexpr double kAtan[] = {-0x1.5555555555555p-2, 0x1.999999999933dp-3,  -0x1.24924924355d5p-3,
                                   0x1.c71c7184c32bfp-4,  -0x1.745d0b153ffadp-4, 0x1.3b126143b5cbcp-4,
                                   -0x1.10fa5ee9ab25cp-4, 0x1.dfe49b2919c4ep-5,  -0x1.a090d1950d2b4p-5,
                                   0x1.41495cefb6c73p-5,  -0x1.39f38ad451ea6p-6};
// sin(r) = r + r z p(z) and cos(r) = 1 - z/2 + z^2 p(z), |r| <= pi/4.
// 2^-55.6
inline constexpr double kSin[] = {-0x1.5555555555555p-3, 0x1.1111111110babp-7,   -0x1.a01a019e820aep-13,
                                  0x1.71de37946ed6dp-19, -0x1.ae6008d114485p-26, 0x1.5e0a4fc16be59p-33};
// 2^-60.0
inline constexpr double kCos[] = {0x1.5555555555555p-5,   -0x1.6c16c16c16963p-10, 0x1.a01a019f4ddfdp-16,
                                  -0x1.27e4fa16cc2d1p-22, 0x1.1eeb67d026ec6p-29,  -0x1.907cd8ff5ede7p-37};
// erf(x) = x p(x^2), |x| <= 1.
// 2^-55.8
inline constexpr double kErf[] = {0x1.20dd750429b6dp+0,   -0x1.812746b0379e6p-2,  0x1.ce2f21a042b30p-4,
                                  -0x1.b82ce31284e00p-6,  0x1.565bcd0dbaa38p-8,   -0x1.c02db3dac435fp-11,
                                  0x1.f9a321d5b8e1ep-14,  -0x1.f4d1e3183f7aep-17, 0x1.b9df224ca4b97p-20,
                                  -0x1.5f1ecb6f0764cp-23, 0x1.f7b4bf3b13964p-27,  -0x1.389d4f2641625p-30,
                                  0x1.05ffd737fb32ep-34};
// exp(t^2) erfc(t) = p(s) / (1 + 2 t), s = (t - 2) / (t + 2), 0 <= t <= 11.
// 2^-50.5
inline constexpr double kErfcx[] = {0x1.46e80e2277953p+0,   -0x1.7bf5ec170066fp-4,  -0x1.5407bebf31fedp-3,
                                    0x1.4ffa1e14e268cp-3,   -0x1.bc2b9561f2699p-5,  -0x1.0742340337f6fp-7,
                                    0x1.1dd2ecb9a7495p-7,   0x1.4d461c7a2c9dep-10,  -0x1.7de53330a36e2p-10,
                                    -0x1.dc692d0f50dfdp-12, 0x1.b0cd084e6d94dp-13,  0x1.3cc24ba722102p-13,
                                    -0x1.9fab047b30888p-20, -0x1.31ccff26f8605p-15, -0x1.c1452f311d662p-17,
                                    0x1.01c0d682058bcp-18,  0x1.552482b71a346p-18,  0x1.4601763d4c4ddp-20,
                                    -0x1.66aecae1d9a40p-21, -0x1.0fd6a95411d4ap-21, -0x1.b363c02042d58p-24};
// 2^-40.5
inline constexpr double kErfcxShort[] = {0x1.46e80e22778e2p+0,   -0x1.7bf5ec15f131fp-4,  -0x1.5407bebef7a9cp-3,
                                         0x1.4ffa1df00ea5ap-3,   -0x1.bc2b95a8c653ep-5,  -0x1.0742055844734p-7,
                                         0x1.1dd30abb88ba3p-7,   0x1.4d38f7b7e8016p-10,  -0x1.7df027bd7daffp-10,
                                         -0x1.db753cd7d15bcp-12, 0x1.b2cc65213b079p-13,  0x1.3816cb4fc142cp-13,
                                         -0x1.2e20867e90026p-18, -0x1.1c4cb4bcf798fp-15, -0x1.207b59fd6cc7dp-17,
                                         0x1.bfd8c2a65bf61p-19,  0x1.9ade840b27c7fp-20};
// 2^-24.7
inline constexpr float kErfcxFloat[] = {0x1.46e80e0000000p+0f,  -0x1.7bf6200000000p-4f, -0x1.5407d00000000p-3f,
                                        0x1.4ffcc00000000p-3f,  -0x1.bc1aba0000000p-5f, -0x1.08546a0000000p-7f,
                                        0x1.1b84a60000000p-7f,  0x1.5d17e60000000p-10f, -0x1.46d7200000000p-10f,
                                        -0x1.b419860000000p-12f};

}  // namespace eadem::kernels::polynomials
