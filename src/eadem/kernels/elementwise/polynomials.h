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
// exp(a^2/2) Phi(-a) = top(a) / bottom(a), Phi the normal distribution, 0 <= a <= 15.6.
// 2^-52.0
inline constexpr double kTailTop[] = {0x1.0000000000001p-1,  0x1.6136de7af7b63p-1,  0x1.e34a173f0290dp-2,
                                      0x1.9f58d00990210p-3,  0x1.e4af8aaeee8c4p-5,  0x1.8778941ecaf2ep-7,
                                      0x1.abbe85618d7b2p-10, 0x1.22ac91fe65187p-13, 0x1.7cf1745a6f32ep-18};
inline constexpr double kTailBottom[] = {
    0x1.0000000000000p+0, 0x1.16bc840cccba2p+1, 0x1.1738c8f4e7f82p+1, 0x1.52c2922d5d63dp+0,  0x1.1341ec63ffdb2p-1,
    0x1.380cbeae2eb2ep-3, 0x1.f054186ffce99p-6, 0x1.0cfb3f5d7bf67p-8, 0x1.6c4e53b35fa62p-12, 0x1.dd710477783e7p-17};
// 2^-39.4
inline constexpr double kTailShortTop[] = {0x1.00000000017a4p-1, 0x1.25bc6c4b2d46fp-1, 0x1.4afe46c66fcd1p-2,
                                           0x1.c105d427002bap-4, 0x1.7ed78191ba52ep-6, 0x1.85ff4092de66bp-9,
                                           0x1.797ba3c27af42p-13};
inline constexpr double kTailShortBottom[] = {0x1.0000000000000p+0, 0x1.f1fe95ea837a9p+0, 0x1.b2d6b76538ae8p+0,
                                              0x1.bc55f41764d42p-1, 0x1.21063f30d0c64p-2, 0x1.e384109a93066p-5,
                                              0x1.e8ca047828b94p-8, 0x1.d91accbf3abcep-12};
// 2^-27.1
inline constexpr float kTailFloatTop[] = {0x1.0000000000000p-1f, 0x1.c2f89c0000000p-2f, 0x1.7a793a0000000p-3f,
                                          0x1.5134b40000000p-5f, 0x1.12f1da0000000p-8f};
inline constexpr float kTailFloatBottom[] = {0x1.0000000000000p+0f, 0x1.adbe800000000p+0f, 0x1.3580d20000000p+0f,
                                             0x1.e4f9380000000p-2f, 0x1.a6a6020000000p-4f, 0x1.5896b80000000p-7f};

}  // namespace eadem::kernels::polynomials
