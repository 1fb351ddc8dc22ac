#pragma once

// Made by scripts/elementary_tables.py; not to be edited by hand.

#include <cstdint>

#include "eadem/numerics/double_double.h"

// clang-format off
namespace eadem::numerics::core {

inline constexpr DoubleDouble kLn2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
inline constexpr DoubleDouble kLog2E = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
inline constexpr DoubleDouble kLog10E = {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57};
inline constexpr DoubleDouble kLog10Of2 = {0x1.34413509f79ffp-2, -0x1.9dc1da994fd21p-59};
inline constexpr DoubleDouble kHalfPi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
inline constexpr DoubleDouble kQuarterPi = {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55};
inline constexpr DoubleDouble kPi = {0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};
inline constexpr DoubleDouble kSqrtHalf = {0x1.6a09e667f3bcdp-1, -0x1.bdd3413b26456p-55};
inline constexpr DoubleDouble kSqrt2 = {0x1.6a09e667f3bcdp+0, -0x1.bdd3413b26456p-54};
inline constexpr DoubleDouble kTwoOverSqrtPi = {0x1.20dd750429b6dp+0, 0x1.1ae3a914fed80p-56};
inline constexpr DoubleDouble kSqrtPiOver2 = {0x1.c5bf891b4ef6bp-1, -0x1.618f13eb7ca89p-55};  // sqrt(pi) / 2, the slope of erfinv at 0
inline constexpr DoubleDouble kSqrtHalfPi = {0x1.40d931ff62706p+0, -0x1.a6a0d6f814637p-54};  // sqrt(pi / 2), the slope of sqrt2_erfinv at 0
inline constexpr DoubleDouble kInverseSqrt2Pi = {0x1.9884533d43651p-2, -0x1.cbc0d30ebfd15p-56};  // the normal density at 0
inline constexpr DoubleDouble kGeluTanhA = {0x1.9884533d43651p+0, -0x1.cbc0d30ebfd15p-54};  // gelu_tanh(x) = x sigmoid(x (A + B x^2)): A = 2 sqrt(2 / pi)
inline constexpr DoubleDouble kGeluTanhB = {0x1.2444f2a4d8b4bp-4, -0x1.6c843a29d1c70p-61};  // B = 0.044715 A
inline constexpr DoubleDouble kGeluTanh3B = {0x1.b6676bf7450f0p-3, 0x1.bba7351828aabp-57};

inline constexpr double kLn2Parts[3] = {0x1.62e42fef00000p-1, 0x1.473de6af00000p-34, 0x1.3c7673007e5edp-69};  // ln 2; n times the first two is exact for |n| < 2^20
inline constexpr double kLn2Over64Parts[3] = {0x1.62e42fef80000p-7, 0x1.1cf79abc80000p-42, 0x1.e3b39803f2f6bp-78};  // ln 2 / 64; n times the first two is exact for |n| < 2^18

// (exp(r) - 1 - r) / r^2 on |r| <= ln2/2: relative error of exp below 2^-59.
inline constexpr double kExp[] = {
    0x1p-1,
    0x1.5555555555557p-3,
    0x1.5555555555556p-5,
    0x1.11111111100bep-7,
    0x1.6c16c16c162c3p-10,
    0x1.a01a01abf85abp-13,
    0x1.a01a01a6e1e2ap-16,
    0x1.71de01fdbf9cap-19,
    0x1.27e4db46cddd1p-22,
    0x1.af4e554377204p-26,
    0x1.1f7340dbc337ep-29};

// 2^(j/64).
inline constexpr DoubleDouble kExp2Table[] = {
    {0x1p+0, 0x0.0p+0},
    {0x1.02c9a3e778061p+0, -0x1.19083535b085dp-56},
    {0x1.059b0d3158574p+0, 0x1.d73e2a475b465p-55},
    {0x1.0874518759bc8p+0, 0x1.186be4bb284ffp-57},
    {0x1.0b5586cf9890fp+0, 0x1.8a62e4adc610bp-54},
    {0x1.0e3ec32d3d1a2p+0, 0x1.03a1727c57b53p-59},
    {0x1.11301d0125b51p+0, -0x1.6c51039449b3ap-54},
    {0x1.1429aaea92de0p+0, -0x1.32fbf9af1369ep-54},
    {0x1.172b83c7d517bp+0, -0x1.19041b9d78a76p-55},
    {0x1.1a35beb6fcb75p+0, 0x1.e5b4c7b4968e4p-55},
    {0x1.1d4873168b9aap+0, 0x1.e016e00a2643cp-54},
    {0x1.2063b88628cd6p+0, 0x1.dc775814a8495p-55},
    {0x1.2387a6e756238p+0, 0x1.9b07eb6c70573p-54},
    {0x1.26b4565e27cddp+0, 0x1.2bd339940e9d9p-55},
    {0x1.29e9df51fdee1p+0, 0x1.612e8afad1255p-55},
    {0x1.2d285a6e4030bp+0, 0x1.0024754db41d5p-54},
    {0x1.306fe0a31b715p+0, 0x1.6f46ad23182e4p-55},
    {0x1.33c08b26416ffp+0, 0x1.32721843659a6p-54},
    {0x1.371a7373aa9cbp+0, -0x1.63aeabf42eae2p-54},
    {0x1.3a7db34e59ff7p+0, -0x1.5e436d661f5e3p-56},
    {0x1.3dea64c123422p+0, 0x1.ada0911f09ebcp-55},
    {0x1.4160a21f72e2ap+0, -0x1.ef3691c309278p-58},
    {0x1.44e086061892dp+0, 0x1.89b7a04ef80d0p-59},
    {0x1.486a2b5c13cd0p+0, 0x1.3c1a3b69062f0p-56},
    {0x1.4bfdad5362a27p+0, 0x1.d4397afec42e2p-56},
    {0x1.4f9b2769d2ca7p+0, -0x1.4b309d25957e3p-54},
    {0x1.5342b569d4f82p+0, -0x1.07abe1db13cadp-55},
    {0x1.56f4736b527dap+0, 0x1.9bb2c011d93adp-54},
    {0x1.5ab07dd485429p+0, 0x1.6324c054647adp-54},
    {0x1.5e76f15ad2148p+0, 0x1.ba6f93080e65ep-54},
    {0x1.6247eb03a5585p+0, -0x1.383c17e40b497p-54},
    {0x1.6623882552225p+0, -0x1.bb60987591c34p-54},
    {0x1.6a09e667f3bcdp+0, -0x1.bdd3413b26456p-54},
    {0x1.6dfb23c651a2fp+0, -0x1.bbe3a683c88abp-57},
    {0x1.71f75e8ec5f74p+0, -0x1.16e4786887a99p-55},
    {0x1.75feb564267c9p+0, -0x1.0245957316dd3p-54},
    {0x1.7a11473eb0187p+0, -0x1.41577ee04992fp-55},
    {0x1.7e2f336cf4e62p+0, 0x1.05d02ba15797ep-56},
    {0x1.82589994cce13p+0, -0x1.d4c1dd41532d8p-54},
    {0x1.868d99b4492edp+0, -0x1.fc6f89bd4f6bap-54},
    {0x1.8ace5422aa0dbp+0, 0x1.6e9f156864b27p-54},
    {0x1.8f1ae99157736p+0, 0x1.5cc13a2e3976cp-55},
    {0x1.93737b0cdc5e5p+0, -0x1.75fc781b57ebcp-57},
    {0x1.97d829fde4e50p+0, -0x1.d185b7c1b85d1p-54},
    {0x1.9c49182a3f090p+0, 0x1.c7c46b071f2bep-56},
    {0x1.a0c667b5de565p+0, -0x1.359495d1cd533p-54},
    {0x1.a5503b23e255dp+0, -0x1.d2f6edb8d41e1p-54},
    {0x1.a9e6b5579fdbfp+0, 0x1.0fac90ef7fd31p-54},
    {0x1.ae89f995ad3adp+0, 0x1.7a1cd345dcc81p-54},
    {0x1.b33a2b84f15fbp+0, -0x1.2805e3084d708p-57},
    {0x1.b7f76f2fb5e47p+0, -0x1.5584f7e54ac3bp-56},
    {0x1.bcc1e904bc1d2p+0, 0x1.23dd07a2d9e84p-55},
    {0x1.c199bdd85529cp+0, 0x1.11065895048ddp-55},
    {0x1.c67f12e57d14bp+0, 0x1.2884dff483cadp-54},
    {0x1.cb720dcef9069p+0, 0x1.503cbd1e949dbp-56},
    {0x1.d072d4a07897cp+0, -0x1.cbc3743797a9cp-54},
    {0x1.d5818dcfba487p+0, 0x1.2ed02d75b3707p-55},
    {0x1.da9e603db3285p+0, 0x1.c2300696db532p-54},
    {0x1.dfc97337b9b5fp+0, -0x1.1a5cd4f184b5cp-54},
    {0x1.e502ee78b3ff6p+0, 0x1.39e8980a9cc8fp-55},
    {0x1.ea4afa2a490dap+0, -0x1.e9c23179c2893p-54},
    {0x1.efa1bee615a27p+0, 0x1.dc7f486a4b6b0p-54},
    {0x1.f50765b6e4540p+0, 0x1.9d3e12dd8a18bp-54},
    {0x1.fa7c1819e90d8p+0, 0x1.74853f3a5931ep-55}};

// 1/n!.
inline constexpr DoubleDouble kInverseFactorial[] = {
    {0x1p+0, 0x0.0p+0},
    {0x1p+0, 0x0.0p+0},
    {0x1p-1, 0x0.0p+0},
    {0x1.5555555555555p-3, 0x1.5555555555555p-57},
    {0x1.5555555555555p-5, 0x1.5555555555555p-59},
    {0x1.1111111111111p-7, 0x1.1111111111111p-63},
    {0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65},
    {0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-73},
    {0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76},
    {0x1.71de3a556c734p-19, -0x1.c154f8ddc6c00p-73},
    {0x1.27e4fb7789f5cp-22, 0x1.cbbc05b4fa99ap-76},
    {0x1.ae64567f544e4p-26, -0x1.c062e06d1f209p-80},
    {0x1.1eed8eff8d898p-29, -0x1.2aec959e14c06p-83},
    {0x1.6124613a86d09p-33, 0x1.f28e0cc748ebep-87},
    {0x1.93974a8c07c9dp-37, 0x1.05d6f8a2efd1fp-92},
    {0x1.ae7f3e733b81fp-41, 0x1.1d8656b0ee8cbp-97},
    {0x1.ae7f3e733b81fp-45, 0x1.1d8656b0ee8cbp-101},
    {0x1.952c77030ad4ap-49, 0x1.ac981465ddc6cp-103},
    {0x1.6827863b97d97p-53, 0x1.eec01221a8b0bp-107},
    {0x1.2f49b46814157p-57, 0x1.2650f61dbdcb4p-112},
    {0x1.e542ba4020225p-62, 0x1.ea72b4afe3c2fp-120},
    {0x1.71b8ef6dcf572p-66, -0x1.d043ae40c4647p-120},
    {0x1.0ce396db7f853p-70, -0x1.aebcdbd20331cp-124},
    {0x1.761b41316381ap-75, -0x1.3423c7d91404fp-130},
    {0x1.f2cf01972f578p-80, -0x1.9ada5fcc1ab14p-135},
    {0x1.3f3ccdd165fa9p-84, -0x1.58ddadf344487p-139},
    {0x1.88e85fc6a4e5ap-89, -0x1.71c37ebd16540p-143},
    {0x1.d1ab1c2dccea3p-94, 0x1.054d0c78aea14p-149},
    {0x1.0a18a2635085dp-98, 0x1.b9e2e28e1aa54p-153},
    {0x1.259f98b4358adp-103, 0x1.eaf8c39dd9bc5p-157}};

// (2 atanh(s) - 2 s) / s^3 in s^2, for log(m) = 2 atanh((m - 1) / (m + 1)), m in [sqrt(1/2), sqrt(2)]: below 2^-60.
inline constexpr double kLog[] = {
    0x1.5555555555555p-1,
    0x1.9999999999a38p-2,
    0x1.2492492476ba1p-2,
    0x1.c71c72017a15cp-3,
    0x1.745cf8f6c9119p-3,
    0x1.3b1c38474d3eep-3,
    0x1.0fbe478772696p-3,
    0x1.0c06cf14c641bp-3};

// (sin(r) - r) / r^3 in r^2 on |r| <= pi/4: below 2^-55.
inline constexpr double kSin[] = {
    -0x1.5555555555555p-3,
    0x1.1111111110babp-7,
    -0x1.a01a019e820aep-13,
    0x1.71de37946ed6dp-19,
    -0x1.ae6008d114485p-26,
    0x1.5e0a4fc16be59p-33};

// (cos(r) - 1 + r^2/2) / r^4 in r^2: below 2^-59.
inline constexpr double kCos[] = {
    0x1.5555555555555p-5,
    -0x1.6c16c16c16963p-10,
    0x1.a01a019f4ddfdp-16,
    -0x1.27e4fa16cc2d1p-22,
    0x1.1eeb67d026ec6p-29,
    -0x1.907cd8ff5ede7p-37};

// 2/pi as binary digits, the first word being the integer part.
inline constexpr std::uint64_t kTwoOverPi[] = {
    0,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
    0xa9e391615ee61b08,
    0x6599855f14a06840};

// (atan(t) - t) / t^3 in t^2 on |t| <= tan(pi/8): below 2^-61.
inline constexpr double kAtan[] = {
    -0x1.5555555555555p-2,
    0x1.9999999999952p-3,
    -0x1.249249248d739p-3,
    0x1.c71c71c2fc236p-4,
    -0x1.745d165c497f3p-4,
    0x1.3b1392a9c2d8bp-4,
    -0x1.110e84aa36d9dp-4,
    0x1.e199c62156609p-5,
    -0x1.ac7858539e493p-5,
    0x1.74d3a7b43351ap-5,
    -0x1.1b1992aa413c9p-5,
    0x1.0a997ba33c1dbp-6};

// cbrt(m) on [1, 8]: 2^-9.4, a start.
inline constexpr double kCbrt[] = {
    0x1.3784c81b01b17p-1,
    0x1.f48b3890d403cp-2,
    -0x1.cb3e73ee2713fp-4,
    0x1.2b08ff2518449p-6,
    -0x1.a29d4b8e82abep-10,
    0x1.da65ac9237f24p-15};

// erf(x) / x in x^2 on |x| <= 1: below 2^-62.
inline constexpr double kErf[] = {
    0x1.20dd750429b6dp+0,
    -0x1.812746b0379e6p-2,
    0x1.ce2f21a042b30p-4,
    -0x1.b82ce31284e00p-6,
    0x1.565bcd0dbaa38p-8,
    -0x1.c02db3dac435fp-11,
    0x1.f9a321d5b8e1ep-14,
    -0x1.f4d1e3183f7aep-17,
    0x1.b9df224ca4b97p-20,
    -0x1.5f1ecb6f0764cp-23,
    0x1.f7b4bf3b13964p-27,
    -0x1.389d4f2641625p-30,
    0x1.05ffd737fb32ep-34};

// The same, below 2^-92.
inline constexpr DoubleDouble kErfAccurate[] = {
    {0x1.20dd750429b6dp+0, 0x1.1ae3a914f7d04p-56},
    {-0x1.812746b0379e7p-2, 0x1.ee12e4c043510p-57},
    {0x1.ce2f21a042be2p-4, -0x1.2871da5172c42p-58},
    {-0x1.b82ce31288b51p-6, 0x1.103d8e32c7cfep-61},
    {0x1.565bcd0e6a53fp-8, -0x1.c35f2a3c457dap-64},
    {-0x1.c02db40040b85p-11, 0x1.b9c767b44b1abp-66},
    {0x1.f9a326f9b8981p-14, -0x1.c1734e79efb1bp-69},
    {-0x1.f4d25c3e0b813p-17, 0x1.055f01c061535p-72},
    {0x1.b9e6c9dc4c2bbp-20, 0x1.27a6d2ccbf92bp-74},
    {-0x1.5f742ec195eb5p-23, 0x1.ba41ffc409371p-78},
    {0x1.fcc57198ce8dbp-27, -0x1.f45138c6091a8p-81},
    {-0x1.51d711710d451p-30, 0x1.20d555ecd0625p-87},
    {0x1.9e6a37972ce51p-34, -0x1.d8881ef43d975p-88},
    {-0x1.d83a266621962p-38, -0x1.796e9cea70eecp-92},
    {0x1.f5efc86d42e8dp-42, -0x1.e4b277667a2f1p-96},
    {-0x1.efdb169dc2294p-46, 0x1.9821b4a8a64a0p-100},
    {0x1.b1e319cdb00aap-50, 0x1.4e03070ca3760p-104},
    {-0x1.0554d9ba6c1b6p-54, -0x1.d40ad7e2a8e6dp-108}};

// exp(x^2) erfc(x) in h = w - (i + 1/2)/16, w = 1/(1 + x), i = floor(16 w), 0.5 <= x <= 28: below 2^-51.
inline constexpr double kErfcx[11][11] = {
    {0x1.2a0744d5828c7p-6, 0x1.3352aa99f62ccp-1, 0x1.2d72dac9c0f7fp-1, 0x1.eb599b5113bb2p-3, -0x1.91ebc89dbc594p-2, -0x1.64116ec0cec25p-1, 0x1.0859e8379138ep-2, 0x1.f6ef9e93fb410p+0, 0x1.2a0fb0d613456p-1, -0x1.c96884af68771p+2, -0x1.8fc30618f3b9ep-2},
    {0x1.db9a69dd6d3ddp-5, 0x1.5a38a47d6023cp-1, 0x1.3ef3a7014b3fdp-1, 0x1.def2e4830c486p-4, -0x1.280392916d4eep-1, -0x1.c5df82d0c5c2fp-2, 0x1.0944748b15bd1p+0, 0x1.482775cc71f16p+0, -0x1.84d524ae79e8fp+1, -0x1.0187385647812p+2, 0x1.90695dcd3e317p+3},
    {0x1.a4f573a7de348p-4, 0x1.827d1a833d7fbp-1, 0x1.42d128d0199f1p-1, -0x1.42625198143a0p-5, -0x1.4c1019a52d115p-1, 0x1.1e386fe520177p-8, 0x1.3969479ee25e8p+0, -0x1.adcd165781ec6p-2, -0x1.85df25d43d284p+1, 0x1.ad00c2cfd102fp+1, 0x1.d1e6814f33cfap+2},
    {0x1.381b155c8368bp-3, 0x1.aa48b6bd2bb28p-1, 0x1.37660e0f151b7p-1, -0x1.90d1b33953f85p-3, -0x1.29e50e9a50768p-1, 0x1.94a06abf526e0p-2, 0x1.9585ac8e4818dp-1, -0x1.58f20185129c1p+0, -0x1.36d214340b06fp-1, 0x1.067c6cfe7381dp+2, -0x1.b23364e91ead1p+1},
    {0x1.a76d5ecf5cc5ap-3, 0x1.cfc2da64ce746p-1, 0x1.1e3375f69c2f8p-1, -0x1.4a5780ef61829p-2, -0x1.b1d1eacc216dap-2, 0x1.2919130c291f8p-1, 0x1.a8ae1ceb2fe1dp-3, -0x1.3215d4b3ed01cp+0, 0x1.e48fb92b5914dp-1, 0x1.5a41345285ceap+0, -0x1.09fa4f4abc471p+2},
    {0x1.0fd540053f1b2p-2, 0x1.f169713afa06ep-1, 0x1.f5c5951c1ab6cp-2, -0x1.9f256d3fa947ep-2, -0x1.ea011a99fb9bdp-3, 0x1.262e75d3595eap-1, -0x1.922ea613a9496p-3, -0x1.45f9ee454df0ep-1, 0x1.1f80116501ac4p+0, -0x1.b1313ea2cb714p-2, -0x1.862d99caa1d12p+0},
    {0x1.4fdd7042ae8dep-2, 0x1.071f01dbb5e69p+0, 0x1.a391a057b40a3p-2, -0x1.c6af6c1a11b70p-2, -0x1.355487e599feap-4, 0x1.da0f649256d2ap-2, -0x1.7535ea37142a8p-2, -0x1.52a6b4eadae36p-3, 0x1.75258775e3524p-1, -0x1.9a1f0412bcccdp-1, 0x1.12263ba807d2dp-4},
    {0x1.932c2631f2b7dp-2, 0x1.12e3e2bf43772p+0, 0x1.4d9294ffbf547p-2, -0x1.c96099a22b44dp-2, 0x1.819374c436a7ap-5, 0x1.48e2112a41b7fp-2, -0x1.7ddd8d7f3728cp-2, 0x1.7c5d3d307cf65p-4, 0x1.4c93bd9e4cfd6p-2, -0x1.2ef046619e9a5p-1, 0x1.e106764b9c97fp-2},
    {0x1.d9165eb6f55ccp-2, 0x1.1bfdea33b4f35p+0, 0x1.f352e09168976p-3, -0x1.b247aab6571c8p-2, 0x1.0365e938d6cccp-3, 0x1.89f6c02b4532cp-3, -0x1.3ac55d171255ep-2, 0x1.7c69af5b29075p-3, 0x1.2be1e12c352d5p-4, -0x1.40129c1ae8246p-2, 0x1.8d53e6bfdecc5p-2},
    {0x1.107a7586c07a1p-1, 0x1.228e75309b057p+0, 0x1.575fb9b3f4d52p-3, -0x1.8b97e8b2197b0p-2, 0x1.5cf7c83f11fddp-3, 0x1.7c2e531d1f2b8p-4, -0x1.c97be36add64cp-3, 0x1.8256fce09053fp-3, -0x1.66a97c6e67883p-5, -0x1.f350f721a064dp-4, 0x1.cb9dadba7bbd0p-3},
    {0x1.35161925da7ecp-1, 0x1.26ce8c8f4dd1fp+0, 0x1.97250172bc650p-4, -0x1.5d46bfd8d810ap-2, 0x1.80bf0db6e5db6p-3, 0x1.84f7bf134bc4cp-6, -0x1.2e1389dbdf4dcp-3, 0x1.3df11e39da482p-3, -0x1.49f3dc425ce35p-4, -0x1.6e9720d3e77e9p-6, 0x1.a86dc990f01bep-4}};

// The same, below 2^-75.
inline constexpr DoubleDouble kErfcxAccurate[11][16] = {
    {{0x1.2a0744d5828c7p-6, -0x1.065976738a9d7p-62}, {0x1.3352aa99f62cdp-1, -0x1.eb5870892fd20p-55}, {0x1.2d72dac9c0dbcp-1, 0x1.1317142424336p-55}, {0x1.eb599b5185420p-3, 0x1.96428ae2310ccp-57}, {-0x1.91ebc8c159299p-2, 0x1.63b22eb34ec5bp-56}, {-0x1.64116767edb7ep-1, 0x1.6b1dc72abc9f2p-55}, {0x1.0855d10067804p-2, -0x1.a3c8578fc3f76p-57}, {0x1.f72107ddda5bap+0, 0x1.5ae2eb5746ff4p-54}, {0x1.1d9f7518ce035p-1, -0x1.51117ba7c86a3p-55}, {-0x1.a98d2199104a1p+2, 0x1.464e34b67506ep-53}, {-0x1.8bb2fa861e8a8p+2, -0x1.7e428ea0b278ap-53}, {0x1.b0ab9f2b1cf81p+4, 0x1.fd3cfcbaa7824p-50}, {0x1.64466d754d123p+5, -0x1.b6289a21f160bp-49}, {-0x1.007993572de17p+7, 0x1.01a83d1c00075p-47}, {-0x1.6971cf0b1c55dp+8, -0x1.7599569443a51p-46}, {0x1.20cd7b9543b03p+10, -0x1.9d147b5a113a9p-44}},
    {{0x1.db9a69dd6d3ddp-5, -0x1.f20081bb1484dp-59}, {0x1.5a38a47d6023bp-1, -0x1.02913afd54f34p-56}, {0x1.3ef3a7014b402p-1, 0x1.50a2620efb2f7p-55}, {0x1.def2e48337fa0p-4, 0x1.ca29ff9aa3afep-58}, {-0x1.2803929189410p-1, -0x1.6203adb6bd891p-59}, {-0x1.c5df83c585567p-2, -0x1.2c96ab0224302p-56}, {0x1.094475c44e2b4p+0, 0x1.a878a33eb7b02p-59}, {0x1.4829a581f5d1cp+0, 0x1.b3de86541d165p-56}, {-0x1.84dabea166a43p+1, 0x1.c523382da23c5p-54}, {-0x1.03b78b9327fc6p+2, 0x1.d3a37e0c697f0p-53}, {0x1.9607d7c0122d8p+3, -0x1.fbf936f3d6e69p-52}, {0x1.98e5b777368cbp+3, -0x1.12fd94a929cd3p-54}, {-0x1.081a2540ac500p+6, -0x1.778b51705402cp-48}, {-0x1.9286cc1ed0819p+4, 0x1.e49f329eeeaefp-51}, {0x1.76a24ac680e65p+8, 0x1.4ed3387472e5fp-46}, {-0x1.42adec897d4eep+7, 0x1.429557814286dp-48}},
    {{0x1.a4f573a7de348p-4, -0x1.032e94ca51e51p-59}, {0x1.827d1a833d7fcp-1, 0x1.1638316bb9760p-55}, {0x1.42d128d0199f2p-1, -0x1.c449757a4d72bp-55}, {-0x1.426251989c682p-5, -0x1.2ff16b1b13079p-59}, {-0x1.4c1019a52f958p-1, -0x1.b9feda70b4bbap-57}, {0x1.1e38cf46f55b0p-8, -0x1.4f5fe480ef09ep-65}, {0x1.396947bb0100ep+0, -0x1.76c0022cd6e85p-54}, {-0x1.addababb85dd6p-2, -0x1.82b4c16380360p-57}, {-0x1.85dfa5c899165p+1, 0x1.4ee2887aa5448p-54}, {0x1.b3d7722ba133cp+1, 0x1.593561a2997b6p-55}, {0x1.d2e3d70254f56p+2, -0x1.272a268c717a2p-52}, {-0x1.40d9deb42f629p+4, -0x1.8e0846f1bb972p-50}, {-0x1.64d66de006923p+2, -0x1.141238788163cp-53}, {0x1.75cf885f87419p+6, 0x1.932a1a124d52cp-50}, {-0x1.aa083a0033f8ap+6, 0x1.2f84433ad4ed0p-50}, {-0x1.174e176d8d61dp+8, -0x1.4c8773307f3eep-46}},
    {{0x1.381b155c8368bp-3, -0x1.16a7ed778a385p-57}, {0x1.aa48b6bd2bb29p-1, -0x1.5f59180dfcc03p-55}, {0x1.37660e0f151b5p-1, -0x1.cd0ad3520c96fp-55}, {-0x1.90d1b339614cep-3, -0x1.53ea434035f97p-58}, {-0x1.29e50e9a4685bp-1, 0x1.5b650c74990e0p-55}, {0x1.94a06b5498065p-2, -0x1.ea8eee17af054p-60}, {0x1.9585abaf880a5p-1, -0x1.ddf213febda6ep-57}, {-0x1.58f356941f051p+0, 0x1.ba86122d9b92cp-54}, {-0x1.36ca1e38aa033p-1, -0x1.23535459ce06fp-55}, {0x1.07d131209e388p+2, -0x1.d255ef344fc30p-52}, {-0x1.ba2c6f9cfc28dp+1, 0x1.434e49e72e6bap-53}, {-0x1.ee52c92d64dd8p+2, 0x1.bf29a14f04e92p-52}, {0x1.74d44f91c1489p+4, 0x1.7a461baf84051p-50}, {-0x1.8e7d73776e412p+3, 0x1.acea34cb3d76bp-51}, {-0x1.fa641b76d356cp+5, 0x1.47b742cd192a2p-49}, {0x1.4f037a51ae61fp+7, -0x1.b3db582ab14b5p-48}},
    {{0x1.a76d5ecf5cc5ap-3, -0x1.cceb3e6b31d6bp-57}, {0x1.cfc2da64ce746p-1, -0x1.d92d39eeb81a6p-56}, {0x1.1e3375f69c2f8p-1, -0x1.9929fcfa03cdap-58}, {-0x1.4a5780ef5ebafp-2, 0x1.2c3ffc09ec4ecp-61}, {-0x1.b1d1eacc1cb23p-2, 0x1.48b0291243e05p-56}, {0x1.291912ed00d16p-1, -0x1.37ff58c83c20fp-55}, {0x1.a8ae1c1748961p-3, -0x1.d3afd8918305cp-57}, {-0x1.3215460e0dba3p+0, -0x1.2f0860021bd25p-54}, {0x1.e4919d0ceff76p-1, -0x1.067c466933429p-56}, {0x1.5804c0d3c490cp+0, -0x1.1689ef6b53960p-54}, {-0x1.0aebbd7e769cap+2, 0x1.4afc45db74603p-52}, {0x1.a4899bfe13e6cp+1, -0x1.be333db03546fp-53}, {0x1.5cdcf732c2e58p+2, 0x1.c7ad0fac334c5p-52}, {-0x1.343dbfa642670p+4, 0x1.dc46ce4f20275p-52}, {0x1.51b1afbd37a2ep+4, -0x1.ebe279b429f25p-50}, {0x1.f85afe4390cffp+3, 0x1.0038bb721cc65p-52}},
    {{0x1.0fd540053f1b2p-2, -0x1.34d552f91c098p-58}, {0x1.f169713afa06ep-1, 0x1.87a579eabd844p-57}, {0x1.f5c5951c1ab6cp-2, 0x1.6ea9e6f448304p-56}, {-0x1.9f256d3fa657fp-2, -0x1.08e98186f2d5ap-56}, {-0x1.ea011a9a00529p-3, -0x1.c958b08e11fdcp-57}, {0x1.262e75b2730cdp-1, 0x1.c049021d2e8acp-60}, {-0x1.922ea5aa0234ap-3, -0x1.1200297a64771p-61}, {-0x1.45f8c169f8e00p-1, 0x1.c9dde7084473ep-57}, {0x1.1f7f98844eb5ep+0, 0x1.8e098c1d9cc75p-57}, {-0x1.ba9922030108dp-2, 0x1.0374c0bb77265p-56}, {-0x1.8448f1b9964bfp+0, -0x1.4dc6d4cf2078bp-54}, {0x1.b66154e1f0338p+1, 0x1.b26e4b1048a8bp-53}, {-0x1.6311ca93b10b7p+1, -0x1.b18552d2aae12p-53}, {-0x1.519c58a87561ep+1, -0x1.4ae72ea256cfap-55}, {0x1.7b2d817a4837dp+3, -0x1.acbbd9de055c3p-52}, {-0x1.19f4533706b52p+4, -0x1.501e53b55d6efp-55}},
    {{0x1.4fdd7042ae8dep-2, -0x1.43c858878d6c4p-58}, {0x1.071f01dbb5e68p+0, 0x1.e4e8728d35696p-54}, {0x1.a391a057b40a4p-2, -0x1.be1ad8607747ep-57}, {-0x1.c6af6c1a109f2p-2, -0x1.c1cea57609d20p-56}, {-0x1.355487e5a2273p-4, -0x1.25dcb2c1832e1p-59}, {0x1.da0f6479dad94p-2, 0x1.395b761f29431p-56}, {-0x1.7535ea0963c10p-2, 0x1.2415e9e8ca944p-57}, {-0x1.52a4f561ef590p-3, -0x1.64fd02632401cp-58}, {0x1.7524b693de889p-1, -0x1.d146c453eaa99p-55}, {-0x1.9bde2a215d80ep-1, -0x1.1c60bd3f6d792p-55}, {0x1.2c43c36150fd3p-4, -0x1.6677e375c9fc6p-58}, {0x1.4452d5e1d2790p+0, 0x1.f2af8c71cec1dp-54}, {-0x1.301185330f415p+1, -0x1.a2c8993834de5p-54}, {0x1.01261f15638b8p+1, -0x1.e978b2d43d7cep-54}, {0x1.a6f328c99451bp-1, -0x1.a67a3c14b5776p-59}, {-0x1.6c98ab12c65afp+2, 0x1.917f213963725p-55}},
    {{0x1.932c2631f2b7dp-2, 0x1.1a572a12fcf6dp-58}, {0x1.12e3e2bf43772p+0, -0x1.40be632b3b20ep-54}, {0x1.4d9294ffbf547p-2, -0x1.34e63189aaaf0p-56}, {-0x1.c96099a22b315p-2, -0x1.eb3e15ccd24f5p-56}, {0x1.819374c430ad6p-5, 0x1.369cbc268fc2ap-62}, {0x1.48e211288f2a9p-2, 0x1.93d76b49a92a8p-56}, {-0x1.7ddd8d6e7b27bp-2, 0x1.3a0dd72c20b4ep-56}, {0x1.7c5d7b039d7eep-4, 0x1.c3af9e87ac3f8p-59}, {0x1.4c9324ac6072bp-2, 0x1.03e6e62b7de31p-56}, {-0x1.2f0ee94462f02p-1, 0x1.90af043cc2a71p-55}, {0x1.e369c3576662bp-2, -0x1.1969c7d330442p-56}, {0x1.5a7ff64a2a5c4p-4, 0x1.108ad9b942485p-64}, {-0x1.bb7f9d0d0497fp-1, -0x1.716523afa9572p-56}, {0x1.6d8a21591e249p+0, -0x1.b8d69ed6b3339p-54}, {-0x1.3d27c410fa841p+0, -0x1.2c58f3cc0a103p-54}, {-0x1.bc9feec088f4bp-6, -0x1.a4ab2cf090072p-61}},
    {{0x1.d9165eb6f55ccp-2, 0x1.02f12b684b456p-59}, {0x1.1bfdea33b4f35p+0, -0x1.c002325ae14b6p-54}, {0x1.f352e09168977p-3, -0x1.e8c5247f00b52p-57}, {-0x1.b247aab6574fep-2, 0x1.fc8a98575fed3p-56}, {0x1.0365e938d69b3p-3, -0x1.9e7ff5e5c6718p-57}, {0x1.89f6c034414d5p-3, -0x1.dc0e8156ab4f5p-58}, {-0x1.3ac55d14e71e2p-2, -0x1.c59199dbb4d04p-56}, {0x1.7c695d2a0677ap-3, 0x1.c73fea831a159p-57}, {0x1.2be191fdaea19p-4, 0x1.06dd99f99d785p-58}, {-0x1.3f6e076445cd1p-2, -0x1.c9bd91f501df5p-56}, {0x1.8da2ca2712ed4p-2, 0x1.a6f9334d48c75p-56}, {-0x1.e09007f60f483p-3, -0x1.392b4be94ba4bp-64}, {-0x1.c5acbc481d481p-4, -0x1.9afe8b9899bf0p-58}, {0x1.042bb2855cd6bp-1, -0x1.7f47fc78a6847p-55}, {-0x1.8483102e6c418p-1, 0x1.cca3e74b7f763p-57}, {0x1.57944009d5a1ap-1, 0x1.d43fa963a8d9bp-56}},
    {{0x1.107a7586c07a1p-1, -0x1.8df1c6450d2b1p-56}, {0x1.228e75309b057p+0, 0x1.d890f3a14904cp-54}, {0x1.575fb9b3f4d52p-3, -0x1.59eb43fa2bc56p-58}, {-0x1.8b97e8b219aacp-2, -0x1.e7323ee3a8befp-56}, {0x1.5cf7c83f12299p-3, 0x1.f4d83d255b381p-57}, {0x1.7c2e532dd5f99p-4, 0x1.d7be5a46f81dap-63}, {-0x1.c97be36eb2b17p-3, -0x1.5bca7f9ff54cbp-60}, {0x1.8256b07662aefp-3, -0x1.da4809dfb7e57p-57}, {-0x1.66a8f026cb7b7p-5, -0x1.402a842c1f170p-59}, {-0x1.f0ed8443e4dfcp-4, 0x1.1f654b3e26b47p-58}, {0x1.cb1131cded66cp-3, -0x1.eea541cde6e40p-57}, {-0x1.bcfc135baf2a1p-3, 0x1.efbadbfa9b9b0p-58}, {0x1.9a87cc04b630ap-4, 0x1.6684e0c13acdap-58}, {0x1.56d41191e51cfp-4, -0x1.f0fee68d6e089p-60}, {-0x1.0e8e414d1027bp-2, 0x1.5a7b810474e6dp-56}, {0x1.7244195a77a8cp-2, 0x1.c16625a6e3463p-56}},
    {{0x1.35161925da7ecp-1, 0x1.7e26fb5c63561p-55}, {0x1.26ce8c8f4dd1fp+0, -0x1.e3243fb8933e9p-54}, {0x1.97250172bc650p-4, -0x1.bf9a6baeee35bp-58}, {-0x1.5d46bfd8d82e1p-2, 0x1.c39c8883956aap-56}, {0x1.80bf0db6e60a5p-3, -0x1.0a0892b45c493p-57}, {0x1.84f7bf3c7fd9ep-6, -0x1.b2fc59e60b3d7p-60}, {-0x1.2e1389dffad89p-3, 0x1.4a5c6210f040bp-57}, {0x1.3df0ef23bb73dp-3, 0x1.06b1887925c2bp-57}, {-0x1.49f39123ded3bp-4, 0x1.1c703eef71149p-61}, {-0x1.68b496cf695ddp-6, -0x1.04a212e25b4ccp-60}, {0x1.a7413bae5a737p-4, -0x1.6a37d4a09a3b1p-59}, {-0x1.11c9c28972044p-3, 0x1.cffcc7a38d38ap-57}, {0x1.b585976709dddp-4, 0x1.31ece80c90f3bp-58}, {-0x1.2d2fbac4e2267p-5, 0x1.0307d7ae94519p-59}, {-0x1.9bfcb4bc4044fp-5, 0x1.2443da6801b52p-59}, {0x1.f717ae1f4e8a9p-4, 0x1.171dd09952809p-58}}};

// erfinv(x) / x in h = L - i - 1/2, L = -log(1 - x^2), i = floor(L): below 2^-56.
inline constexpr double kErfinv[37][12] = {
    {0x1.013c0f35f5f18p+0, 0x1.ef212c8f3a671p-3, 0x1.03545a4824015p-7, -0x1.43fdd851b601fp-9, -0x1.1b43f3f6c36aap-17, 0x1.8c9489bdeaed4p-15, -0x1.9e4f0d60a8ebep-20, -0x1.00aadcde8bbf3p-20, 0x1.0e4a1d6391095p-24, 0x1.4e4474f17ba9fp-26, -0x1.0821fee1b92e0p-29, -0x1.a738b1a6f4954p-32},
    {0x1.4087417fcf5eep+0, 0x1.005f034b91d73p-2, 0x1.cd40055a3e0b8p-11, -0x1.123ee0112951dp-9, 0x1.74997cbb3029bp-13, 0x1.86b5eb732f71fp-16, -0x1.688f8b0fd6504p-18, -0x1.177f75f93fd6ep-24, 0x1.f98327fc2cce5p-24, -0x1.f0e1719ed1973p-28, -0x1.133d264a10462p-29, 0x1.460d0b20f7c45p-32},
    {0x1.805c5cfcedef5p+0, 0x1.f91e8993f0d14p-3, -0x1.11c3c302e0305p-8, -0x1.4863cdfb613c7p-10, 0x1.c9b437eee67cap-13, -0x1.4f47fe754438ap-18, -0x1.ca922f2fb983fp-19, 0x1.01037f178ade0p-21, 0x1.cd388cee13d86p-27, -0x1.7531782fa53c9p-27, 0x1.e6130e45b08c3p-31, 0x1.08771a58ee38fp-33},
    {0x1.be2a1a0dc3720p+0, 0x1.e20396f317668p-3, -0x1.b835ad51b137ap-8, -0x1.f8a98bc2e2967p-12, 0x1.4c877ea301f03p-13, -0x1.090dd78055fd8p-16, -0x1.9a90a80f95007p-22, 0x1.596756f47af7fp-22, -0x1.3cba1c323a7b1p-25, -0x1.8373ed7a2d619p-31, 0x1.9899a5c09e659p-31, -0x1.74d25cfdc4eb1p-34},
    {0x1.f89c263100a0fp+0, 0x1.c4ae2ddd4a315p-3, -0x1.e2d6c1c2aae1ap-8, -0x1.cfddbc11d0925p-19, 0x1.5a3f345a5bc57p-14, -0x1.bfb49955f270fp-17, 0x1.e091a7705d13ep-21, 0x1.0f51eb75125b6p-24, -0x1.8d9e3eb055887p-26, 0x1.5421c717aaaedp-29, -0x1.498332aab176cp-38, -0x1.47228ef889601p-35},
    {0x1.17a9ba0650cc2p+1, 0x1.a7086def58195p-3, -0x1.cadf3286a09d5p-8, 0x1.bd510b8388b43p-13, 0x1.f9f1934950e1ep-16, -0x1.00843504ec560p-17, 0x1.d9fd000dbe145p-21, -0x1.6b1e3843493cep-25, -0x1.590167ee95938p-28, 0x1.727821b077949p-30, -0x1.35c0a0b045c71p-33, 0x1.02cc36e1162d3p-38},
    {0x1.313c8a6ceb9e3p+1, 0x1.8bd646bfff95cp-3, -0x1.9978e0bb17e3ap-8, 0x1.1dc0e8a8a6ca7p-12, 0x1.d3f5dd8ef85c6p-19, -0x1.c5a13fdaf9142p-19, 0x1.1dd9dbf02ffa5p-21, -0x1.a4d588178487ep-25, 0x1.e011756541566p-30, 0x1.3dc0d1af703b5p-32, -0x1.20ed93305af02p-34, 0x1.e227b17d06b85p-38},
    {0x1.493625678dcf6p+1, 0x1.73eb4ea753751p-3, -0x1.64471753574a7p-8, 0x1.126d297a944bdp-12, -0x1.d5546dacf9909p-18, -0x1.25804ad308300p-20, 0x1.0e58bb756d311p-22, -0x1.05d5a125df92ep-25, 0x1.4475799b4c9a8p-29, -0x1.21b2785bc6e01p-34, -0x1.dd16bd16af53ap-37, 0x1.7f51cada1772ap-39},
    {0x1.5fcb083938cc5p+1, 0x1.5f31a91c39802p-3, -0x1.34145f2474a9fp-8, 0x1.dbd7cdb093396p-13, -0x1.41fa524e9b7e1p-17, -0x1.b2c18a17652fep-24, 0x1.a16f8d0488460p-24, -0x1.fef0d4bee3a64p-27, 0x1.9b11dc2fdaefap-30, -0x1.bbfccaeb0d586p-34, 0x1.3fe83848e8db6p-39, 0x1.283c5a48eaeb1p-41},
    {0x1.752b375674758p+1, 0x1.4d412339f90cep-3, -0x1.0b3b31488a75fp-8, 0x1.8c5e8a9834242p-13, -0x1.306640ea08365p-17, 0x1.033e89ac1b934p-22, 0x1.d26e0e46c61d8p-26, -0x1.a6a66776ea56ep-28, 0x1.974c6d87e4fcdp-31, -0x1.1b79108f5423ap-34, 0x1.10a271c9bac59p-38, -0x1.5ff157b6e131ep-44},
    {0x1.897f9387157bfp+1, 0x1.3da4637f50608p-3, -0x1.d2ec1612bbc5dp-9, 0x1.4618c240be608p-13, -0x1.ffe9cef3cf2b0p-18, 0x1.4c4d64daa56cfp-22, 0x1.acc8a0d0ad89cp-33, -0x1.22715ccfba638p-29, 0x1.5c87a44d85e65p-32, -0x1.1ad77c25e761ep-35, 0x1.5d91379861aaep-39, -0x1.31e835bbb11d6p-43},
    {0x1.9ce9f9b46f0efp+1, 0x1.2ff2643c3cbd2p-3, -0x1.9b6077c7413b4p-9, 0x1.0c7ba8423f91bp-13, -0x1.9b9640c33ac76p-18, 0x1.2d3975a2852d7p-22, -0x1.1190cb08eca44p-27, -0x1.0784da45ba5cdp-31, 0x1.04b7eeadb1335p-33, -0x1.ed09737a89a5ep-37, 0x1.5e208ad79d33cp-40, -0x1.85953b14f7ba2p-44},
    {0x1.af86489ea671cp+1, 0x1.23d4960e0fdafp-3, -0x1.6d8228bf28d10p-9, 0x1.bd1f03972da84p-14, -0x1.4623fe2597f4ep-18, 0x1.e94de58948742p-23, -0x1.33859861a28a8p-27, 0x1.8478d07f65903p-34, 0x1.3d0271760eeacp-35, -0x1.815a41c590b5fp-38, 0x1.34acc4a64c92bp-41, -0x1.859fcc62b3525p-45},
    {0x1.c16b84c5363ebp+1, 0x1.1905d11a5599ep-3, -0x1.4751a252ccc86p-9, 0x1.7469645ecce04p-14, -0x1.025be36c2d4e7p-18, 0x1.7d13941c5d46ep-23, -0x1.0812b32b64d48p-27, 0x1.ffe3ab25ebe8ep-33, 0x1.7d3292ac7ac9dp-38, -0x1.0712d3b72cc1ap-39, 0x1.ef69279e4b93dp-43, -0x1.5960b84d3261bp-46},
    {0x1.d2acd762a7a6bp+1, 0x1.0f4f49cced244p-3, -0x1.2736fd005bd9dp-9, 0x1.3aa7afe634f56p-14, -0x1.9bfc7e1f996cbp-19, 0x1.24cb4f8641782p-23, -0x1.9de7b8536c716p-28, 0x1.f93c160468e93p-33, -0x1.2206834308582p-38, -0x1.0e6cbf1710647p-41, 0x1.67856599b1a48p-44, -0x1.19837a437c3e6p-47},
    {0x1.e35a5ae8262fbp+1, 0x1.068577b0ba9c4p-3, -0x1.0bf65f38e1b29p-9, 0x1.0c671a713c417p-14, -0x1.4b9471ee1295fp-19, 0x1.c1eae4230562cp-24, -0x1.3927d0cf7d43dp-28, 0x1.9aebe185c556ap-33, -0x1.9f4eadc93bc66p-38, -0x1.957ccb50f4beap-48, 0x1.ba9ebbf4a9629p-46, -0x1.a735e0785b6b6p-49},
    {0x1.f381b9b7e116dp+1, 0x1.fd0affb74cdf6p-4, -0x1.e93a2fdcc5caap-10, 0x1.cdfc4cf379cf8p-15, -0x1.0da1c2833fdc4p-19, 0x1.5befee13296e4p-24, -0x1.d4c386eb40a4cp-29, 0x1.3756a3f86295fp-33, -0x1.704bab1625566p-38, 0x1.11eddd2492306p-43, 0x1.4fb3043a8ce5bp-48, -0x1.1c260e9c316cep-50},
    {0x1.0197541c60500p+2, 0x1.ee6667452bf8ap-4, -0x1.c0e04ebb3e23dp-10, 0x1.90d717cb891a3p-15, -0x1.bb07d1d0671ccp-20, 0x1.0f9fc3cadd2fap-24, -0x1.5f35887d6932ep-29, 0x1.cb12e11d97ac9p-34, -0x1.1d57319bc7626p-38, 0x1.2571d012e0b2cp-43, -0x1.b761f31265674p-50, -0x1.2c04b7aa726b7p-52},
    {0x1.0935a1753b0d4p+2, 0x1.e0ef1a4d5362cp-4, -0x1.9dbcadff3043fp-10, 0x1.5e5ddd2ba6921p-15, -0x1.6f874f5bc4e8cp-20, 0x1.ac8f6bfa7369dp-25, -0x1.08f1b81afff90p-29, 0x1.4ff16a274f335p-34, -0x1.a382ba800ba14p-39, 0x1.df12e11f40586p-44, -0x1.92e087c2389bfp-49, -0x1.3b51b2db494a0p-56},
    {0x1.10a02bb7f5feep+2, 0x1.d47f19f1cbc4ep-4, -0x1.7eeb879ae740bp-10, 0x1.344ef4fa53665p-15, -0x1.33a9b8a6f3868p-20, 0x1.55a906dbcd40bp-25, -0x1.938f9426d665bp-30, 0x1.ecde1064e304ap-35, -0x1.2e58c48d73255p-39, 0x1.6439b8a78771fp-44, -0x1.6d5bc092294dcp-49, 0x1.bd0f354e85e6bp-55},
    {0x1.17dacee947808p+2, 0x1.c8f6bfc8d364ep-4, -0x1.63b8551fe4f04p-10, 0x1.10f4cd873b3aep-15, -0x1.03b3948f69cabp-20, 0x1.1325ab3bf8882p-25, -0x1.36981fcd9b9b2p-30, 0x1.6c36cb78647cap-35, -0x1.b204505eaa8b5p-40, 0x1.fe398f620ed61p-45, -0x1.183d669552fe5p-49, 0x1.f4336519c85cep-55},
    {0x1.1ee8f2efea577p+2, 0x1.be3b735dade7bp-4, -0x1.4b92853c555acp-10, 0x1.e6014233c7a08p-16, -0x1.b9cb92d7a047bp-21, 0x1.bf641e36d557cp-26, -0x1.e32cdae904bf3p-31, 0x1.0fbf8f1ee5f9cp-35, -0x1.38b727c3772a6p-40, 0x1.68958cc1f4e20p-45, -0x1.930bde4150ee5p-50, 0x1.96ba4c69ee7dcp-55},
    {0x1.25cd9dbcd38f0p+2, 0x1.b436ad70c6333p-4, -0x1.36052cc1447b2p-10, 0x1.b2df2f2578d42p-16, -0x1.7a6d422fd99f6p-21, 0x1.6ef428f693171p-26, -0x1.7bb05e773514ep-31, 0x1.99c8a81e5a1cdp-36, -0x1.c631af3866fe0p-41, 0x1.fd138d9953e02p-46, -0x1.1a5fb6acf0791p-50, 0x1.2944ab808a068p-55},
    {0x1.2c8b81f8f3733p+2, 0x1.aad534a224e1cp-4, -0x1.22b0dce5ed07ep-10, 0x1.86eee6ed2c8aep-16, -0x1.463e30ff45a8fp-21, 0x1.2f72621fb95abp-26, -0x1.2d44b53517c1dp-31, 0x1.383d929bab9a1p-36, -0x1.4d116f2b7419ep-41, 0x1.69370e2b50e16p-46, -0x1.88800dff3a783p-51, 0x1.9fe828ecbacdcp-56},
    {0x1.33250aff503dap+2, 0x1.a20684e5158fbp-4, -0x1.114705567b0d3p-10, 0x1.60f1346329624p-16, -0x1.1aee0f8a79ecfp-21, 0x1.f9aae4db5804ep-27, -0x1.e270cb8265e62p-32, 0x1.e0b7360a85f77p-37, -0x1.ed995bcc6c85bp-42, 0x1.0272dd9b93b61p-46, -0x1.1124ddec29d6dp-51, 0x1.1e0531525d08fp-56},
    {0x1.399c66b858847p+2, 0x1.99bc572a2edd5p-4, -0x1.0186756f61c8bp-10, 0x1.3fe7cb4def60ap-16, -0x1.ed6f1726c7832p-22, 0x1.a84876a3391ddp-27, -0x1.858eca1f8b6cdp-32, 0x1.75a7f910ac120p-37, -0x1.71959097c2304p-42, 0x1.757cb3e68170bp-47, -0x1.7e8a2f7d839e1p-52, 0x1.87ece8e1eace3p-57},
    {0x1.3ff38dc711bb1p+2, 0x1.91ea418b698abp-4, -0x1.e6715f8b1d6d5p-11, 0x1.23064aabeecbdp-16, -0x1.b07869d3e1412p-22, 0x1.66507cb3dcdd7p-27, -0x1.3d0a559421258p-32, 0x1.251aeb6b0894dp-37, -0x1.178a1b9ec9720p-42, 0x1.10a97c24ffe56p-47, -0x1.0e38a6ff30631p-52, 0x1.0d6bfd73e7923p-57},
    {0x1.462c4a5e42c40p+2, 0x1.8a856a4ef4925p-4, -0x1.cc5fb28a614bfp-11, 0x1.09a715d31f1fep-16, -0x1.7cd51eeb7690ap-22, 0x1.306ef31326fdcp-27, -0x1.03eb3d17ec200p-32, 0x1.cfcac12af7beep-38, -0x1.aaf61ad47a5b5p-43, 0x1.92389f06f52b0p-48, -0x1.8189d0c7b001ep-53, 0x1.751028578dc44p-58},
    {0x1.4c483e001ed8cp+2, 0x1.83844989b2cdcp-4, -0x1.b48a39421761fp-11, 0x1.e685e55060395p-17, -0x1.50d68934f2809p-22, 0x1.041cbbf09e7cbp-27, -0x1.ad19693c6a14fp-33, 0x1.71e401f750900p-38, -0x1.490c6993421f2p-43, 0x1.2ba3c12eac7bfp-48, -0x1.15d93a2c49db0p-53, 0x1.04a010d43c301p-58},
    {0x1.5248e65c4e5eap+2, 0x1.7cde7636beb98p-4, -0x1.9eaecb33995f4p-11, 0x1.bed55952e8a98p-17, -0x1.2b26b5f062275p-22, 0x1.bed361bd8dcf7p-28, -0x1.64779ad388dfbp-33, 0x1.2938eee2119d3p-38, -0x1.ff8be94c3462dp-44, 0x1.c2b4f61c9fe53p-49, -0x1.948a28109c19dp-54, 0x1.6fbf95296c9ffp-59},
    {0x1.582fa17524113p+2, 0x1.768c7c5cdd475p-4, -0x1.8a94be86199abp-11, 0x1.9b84691e92eaap-17, -0x1.0ab404cb141aep-22, 0x1.81ac091a783fap-28, -0x1.29e76d4ff5eafp-33, 0x1.e107ea75be40fp-39, -0x1.90d96c050ba89p-44, 0x1.5609dd3fb07fdp-49, -0x1.2964326a0b840p-54, 0x1.0611165d7618dp-59},
    {0x1.5dfdb12c5ed23p+2, 0x1.7087ba6ab47a2p-4, -0x1.780b4bb02a8d6p-11, 0x1.7bf9b60272c91p-17, -0x1.dd43cc87ae411p-23, 0x1.4e6ca6fadbb58p-28, -0x1.f4b8f812ff6a5p-34, 0x1.87d508aacfc83p-39, -0x1.3c7f01dc944efp-44, 0x1.05ca9a71b65c8p-49, -0x1.b95a3ffa3c3a0p-55, 0x1.7938ffe08b420p-60},
    {0x1.63b43e515c22fp+2, 0x1.6aca445d98f07p-4, -0x1.66e84131a2ff8p-11, 0x1.5fb4bfc4d111ep-17, -0x1.ac7ab09c1c11fp-23, 0x1.233e7637e24cdp-28, -0x1.a708b7c77ad23p-34, 0x1.4128e393872c6p-39, -0x1.f75d56c908749p-45, 0x1.93fa177779bddp-50, -0x1.4a6c8d1fb6523p-55, 0x1.1219755860371p-60},
    {0x1.69545b4596bffp+2, 0x1.654ecb9715657p-4, -0x1.5706f5f929f7ep-11, 0x1.464945782e3c9p-17, -0x1.81e8449c9c245p-23, 0x1.fd592d4e5f595p-29, -0x1.672d0089fa441p-34, 0x1.08c6b030a2e99p-39, -0x1.92fb363e7717fp-45, 0x1.3a110a32ee225p-50, -0x1.f2ef65b1b8617p-56, 0x1.92001dc2c75acp-61},
    {0x1.6edf06485c99cp+2, 0x1.60108a8225f9bp-4, -0x1.48476d38c1beap-11, 0x1.2f5b9ca4ac142p-17, -0x1.5c9c347e616cfp-23, 0x1.bf1b435a1f4b5p-29, -0x1.3262f9c8f36c6p-34, 0x1.b6fea7ef814c3p-40, -0x1.44ab26c8db6d8p-45, 0x1.ebd817f7df412p-51, -0x1.7bb4ce10b3bfdp-56, 0x1.295fd82e07f01p-61},
    {0x1.74552b778c619p+2, 0x1.5b0b33579e231p-4, -0x1.3a8da180b0623p-11, 0x1.1a9dc64967d74p-17, -0x1.3bcfdef708848p-23, 0x1.89e5a72d217fep-29, -0x1.0683627afafe0p-34, 0x1.6dd28eb635f62p-40, -0x1.07256c784ee06p-45, 0x1.83be371f7af1bp-51, -0x1.2328517f02407p-56, 0x1.bb9e65899572ep-62},
    {0x1.79b7a690b36aep+2, 0x1.563ae17500a29p-4, -0x1.2dc0ef450aa03p-11, 0x1.07cd174df126ap-17, -0x1.1ede36b1ebf90p-23, 0x1.5c36964becf44p-29, -0x1.c3ba97cdacc60p-35, 0x1.325a1044b9310p-40, -0x1.acfd15f389440p-46, 0x1.33a4157ae7309p-51, -0x1.c1b8432df99e6p-57, 0x1.4d815ba897cd5p-62}};

// A zero of a derivative in three parts, and the Taylor coefficients there (the first in double-double).
struct DerivativeZero {
  double at[3];
  DoubleDouble slope;
  double higher[4];
};
inline constexpr DerivativeZero kSiluDerivativeZero = {{-0x1.474973c84120bp+0, -0x1.f8d74bc9ac154p-54, -0x1.44a50180ba780p-108}, {0x1.be1410460527fp-3, -0x1.2541062177473p-58}, {0x1.2c563458cc0adp-3, 0x1.353eb573ca457p-6, -0x1.f2d0e32bc2994p-7, -0x1.b0f82c498fd2fp-8}};
inline constexpr DerivativeZero kGeluDerivativeZero = {{-0x1.80ead197f00b4p-1, 0x1.13e74c58cada8p-56, 0x1.65d4b5b9cdd03p-111}, {0x1.b9d98fa5a3215p-2, 0x1.f7c1a23190c7cp-56}, {0x1.8d9a941de3ac5p-2, -0x1.2a2ef9bb865aep-6, -0x1.d2fa4c17c7e84p-4, -0x1.e4088244f901dp-7}};
inline constexpr DerivativeZero kGeluTanhDerivativeZero = {{-0x1.81429f9e97e4dp-1, 0x1.4f523ed77dbdcp-55, -0x1.a649fca8ac0e5p-109}, {0x1.b8bacd2c96b91p-2, 0x1.7625a206be83dp-56}, {0x1.8cd1a2b2fff33p-2, -0x1.029615edb077ap-6, -0x1.d2b77346470abp-4, -0x1.104a83edc0ddcp-6}};

}  // namespace eadem::numerics::core
// clang-format on
