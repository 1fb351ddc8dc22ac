#!/usr/bin/env python3
"""Makes src/eadem/kernels/elementwise/polynomials.h: the polynomials of the vector elementary functions.

Each is a Chebyshev interpolant (within a small factor of minimax) of a smooth function on an interval, in the monomial
basis, lowest degree first. The comment gives the largest error relative to the whole function that it serves.
Needs mpmath.  Usage: scripts/elementwise_polynomials.py > src/eadem/kernels/elementwise/polynomials.h
"""
from mpmath import mp, mpf, cos, pi, exp, log, atan, sin, erf, erfc, sqrt, chebyfit, polyval

mp.prec = 200


def fit(function, low, high, degree):
    coefficients, _ = chebyfit(function, [low, high], degree + 1, error=True)
    return coefficients  # highest first


def emit(name, kind, function, low, high, degree, error_of):
    coefficients = fit(function, low, high, degree)
    rounded = [mpf(float(c)) for c in coefficients]
    if kind == "float":
        import struct
        rounded = [mpf(struct.unpack("f", struct.pack("f", float(c)))[0]) for c in coefficients]
    worst = mpf(0)
    for i in range(801):
        t = low + (high - low) * mpf(i) / 800
        worst = max(worst, abs(error_of(t, polyval(rounded, t) - function(t))))
    literals = ", ".join((float(c).hex() + ("f" if kind == "float" else "")) for c in reversed(rounded))
    bits = "0" if worst == 0 else "2^%.1f" % float(log(worst, 2))
    print(f"// {bits}\ninline constexpr {kind} {name}[] = {{{literals}}};")


def taylor_guard(function, series):
    return lambda t: series(t) if abs(t) < mpf(2) ** -20 else function(t)


print("""#pragma once

// Made by scripts/elementwise_polynomials.py. A comment is the largest relative error of the function that is served.

namespace eadem::kernels::polynomials {
""")
mp.prec = 300
half_ln2 = log(mpf(2)) / 2 * mpf("1.003")
tail = taylor_guard(lambda r: (exp(r) - 1 - r) / r**2, lambda r: mpf(1) / 2 + r / 6 + r * r / 24 + r**3 / 120 + r**4 / 720 + r**5 / 5040 + r**6/40320)
print("// exp(r) = 1 + r + r^2 p(r), |r| <= ln2 / 2; also good for expm1.")
expm1_relative = lambda r, e: e * r if abs(r) < mpf(2) ** -100 else e * r**2 / (exp(r) - 1)
emit("kExp", "double", tail, -half_ln2, half_ln2, 9, expm1_relative)
emit("kExpShort", "double", tail, -half_ln2, half_ln2, 7, expm1_relative)
emit("kExpFloat", "float", tail, -half_ln2, half_ln2, 4, expm1_relative)
print("// log((1 + s) / (1 - s)) = 2 s + s z p(z), z = s^2, |s| <= (sqrt2 - 1) / (sqrt2 + 1).")
z_log = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1)) ** 2 * mpf("1.01")
atanh_tail = taylor_guard(lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) / sqrt(z) - 2) / z, lambda z: mpf(2) / 3 + 2 * z / 5 + 2 * z**2 / 7 + 2*z**3/9 + 2*z**4/11)
emit("kLog", "double", atanh_tail, mpf(0), z_log, 6, lambda z, e: e * z / 2)
print("// atan(t) = t + t z p(z), |t| <= tan(pi/8).")
z_atan = (sqrt(mpf(2)) - 1) ** 2 * mpf("1.001")
atan_tail = taylor_guard(lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z, lambda z: -mpf(1) / 3 + z / 5 - z**2 / 7 + z**3/9 - z**4/11)
emit("kAtan", "double", atan_tail, mpf(0), z_atan, 10, lambda z, e: e * z)
print("// sin(r) = r + r z p(z) and cos(r) = 1 - z/2 + z^2 p(z), |r| <= pi/4.")
z_sin = (pi / 4) ** 2 * mpf("1.001")
sin_tail = taylor_guard(lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z, lambda z: -mpf(1) / 6 + z / 120 - z**2 / 5040 + z**3/362880)
cos_tail = taylor_guard(lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, lambda z: mpf(1) / 24 - z / 720 + z**2 / 40320 - z**3/3628800)
emit("kSin", "double", sin_tail, mpf(0), z_sin, 5, lambda z, e: e * z)
emit("kCos", "double", cos_tail, mpf(0), z_sin, 5, lambda z, e: e * z**2)
print("// erf(x) = x p(x^2), |x| <= 1.")
erf_tail = taylor_guard(lambda z: erf(sqrt(z)) / sqrt(z), lambda z: 2 / sqrt(pi) * (1 - z / 3 + z**2 / 10 - z**3/42))
emit("kErf", "double", erf_tail, mpf(0), mpf(1), 12, lambda z, e: e)
print("// exp(t^2) erfc(t) = p(s) / (1 + 2 t), s = (t - 2) / (t + 2), 0 <= t <= 11.")
K = mpf(2)
def scaled_erfc(s):
    t = K * (1 + s) / (1 - s)
    return exp(t * t) * erfc(t) * (1 + 2 * t)
top = (11 - K) / (11 + K)
relative = lambda s, e: e / scaled_erfc(s)
for name, kind, degree in (("kErfcx", "double", 20), ("kErfcxShort", "double", 16), ("kErfcxFloat", "float", 9)):
    emit(name, kind, scaled_erfc, mpf(-1), top, degree, relative)
print("""
}  // namespace eadem::kernels::polynomials""")
