#!/usr/bin/env python3
"""Makes src/eadem/kernels/elementwise/polynomials.h: the polynomials of the vector elementary functions.

Each is a Chebyshev interpolant (within a small factor of minimax) of a smooth function on an interval, or a minimax
quotient of two polynomials, in the monomial basis, lowest degree first. The comment gives the largest error relative to
the whole function that it serves.
Needs mpmath.  Usage: scripts/elementwise_polynomials.py > src/eadem/kernels/elementwise/polynomials.h
"""
import struct

from mpmath import mp, mpf, cos, pi, exp, log, atan, sin, erf, erfc, sqrt, chebyfit, polyval, matrix, lu_solve

mp.prec = 200


def fit(function, low, high, degree):
    coefficients, _ = chebyfit(function, [low, high], degree + 1, error=True)
    return coefficients  # highest first


def rounded_to(kind, coefficients):
    if kind == "float":
        return [mpf(struct.unpack("f", struct.pack("f", float(c)))[0]) for c in coefficients]
    return [mpf(float(c)) for c in coefficients]


def emit_literals(name, kind, coefficients, bits):
    literals = ", ".join(float(c).hex() + ("f" if kind == "float" else "") for c in coefficients)
    if bits:
        print(f"// {bits}")
    print(f"inline constexpr {kind} {name}[] = {{{literals}}};")


def emit(name, kind, function, low, high, degree, error_of):
    rounded = rounded_to(kind, fit(function, low, high, degree))  # highest first
    worst = mpf(0)
    for i in range(801):
        t = low + (high - low) * mpf(i) / 800
        worst = max(worst, abs(error_of(t, polyval(rounded, t) - function(t))))
    emit_literals(name, kind, rounded[::-1], "0" if worst == 0 else "2^%.1f" % float(log(worst, 2)))


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

def rational(f, xs, at, top_degree, bottom_degree):
    """The minimax p(x) / q(x), by relative error, q(0) = 1: Remez' exchange over the grid at(-1 .. 1) from nodes xs."""
    grid = [at(mpf(i) / 1000 - 1) for i in range(2001)]
    error, q = mpf(0), [mpf(1)] + [mpf(0)] * bottom_degree
    while True:
        for _ in range(6):  # p - f q (1 +- error) = 0, linear but for error q
            size = len(xs)
            a, b = matrix(size, size), matrix(size, 1)
            for i, x in enumerate(xs):
                sign = -1 if i % 2 else 1
                for j in range(top_degree + 1):
                    a[i, j] = x**j / f(x)
                for j in range(1, bottom_degree + 1):
                    a[i, top_degree + j] = -(1 + sign * error) * x**j
                a[i, size - 1] = -sign * polyval(q[::-1], x)
                b[i] = 1 + sign * error
            solution = lu_solve(a, b)
            p = [solution[j] for j in range(top_degree + 1)]
            q = [mpf(1)] + [solution[top_degree + j] for j in range(1, bottom_degree + 1)]
            error += solution[size - 1]
        errors = [polyval(p[::-1], x) / polyval(q[::-1], x) / f(x) - 1 for x in grid]
        extrema = []  # of each run of one sign
        for i, e in enumerate(errors):
            if extrema and (e > 0) == (errors[extrema[-1]] > 0):
                if abs(e) > abs(errors[extrema[-1]]):
                    extrema[-1] = i
            else:
                extrema.append(i)
        assert len(extrema) == len(xs)
        xs = [grid[i] for i in extrema]
        sizes = [abs(errors[i]) for i in extrema]
        if max(sizes) < mpf("1.02") * min(sizes):
            return p, q, max(sizes)


print("// exp(a^2/2) Phi(-a) = top(a) / bottom(a), Phi the normal distribution, 0 <= a <= 15.6.")
farthest, middle = mpf("15.6"), mpf(3)
half_width = (1 + (farthest - middle) / (farthest + middle)) / 2
def place(u):  # -1 .. 1 to 0 .. farthest, dense where the function bends
    s = half_width * (u + 1) - 1
    return middle * (1 + s) / (1 - s)
scaled_tail = lambda a: exp(a * a / 2) * erfc(a / sqrt(mpf(2))) / 2
for name, kind, top_degree, bottom_degree in (("Tail", "double", 8, 9), ("TailShort", "double", 6, 7), ("TailFloat", "float", 4, 5)):
    count = top_degree + bottom_degree + 2
    nodes = [place(-cos(pi * i / (count - 1))) for i in range(count)]
    p, q, worst = rational(scaled_tail, nodes, place, top_degree, bottom_degree)
    assert all(c > 0 for c in p + q)  # nothing cancels
    bits = "%.1f" % float(log(worst, 2))
    for part, coefficients in (("Top", p), ("Bottom", q)):
        emit_literals(f"k{name}{part}", kind, rounded_to(kind, coefficients), f"2^{bits}" if part == "Top" else None)
print("""
}  // namespace eadem::kernels::polynomials""")
