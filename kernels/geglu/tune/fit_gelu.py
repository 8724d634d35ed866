"""Fits the quotient of scaled_normal_tail in kernel_src/activation.cuh: q(t) = exp(t^2 / 2) * P(normal > t), t from 0 to
19, with the least largest relative error (Remez), and says what is left of it with coefficients of fp32.

    python fit_gelu.py [degree of the numerator, 4] [of the denominator, 5]

Needs mpmath. Degrees 3 and 4 give 2^-20.8, 4 and 4 2^-22.0, 4 and 5 2^-26.7, 5 and 6 2^-32.6.
"""

import struct
import sys

import mpmath as mp

mp.mp.dps = 40
LAST = mp.mpf(19)  # exp(-t^2 / 4) is below 2^-126 from 18.7 on


def q(t):
    return mp.erfc(t / mp.sqrt(2)) * mp.exp(t * t / 2) / 2


def points(count):
    """From 0 to LAST, dense at both ends and near 0: Chebyshev's in t / (t + 3)."""
    end = LAST / (LAST + 3)
    for i in range(count):
        u = end * (1 - mp.cos(mp.pi * i / (count - 1))) / 2
        yield 3 * u / (1 - u)


def evaluate(numerator, denominator, t):
    return mp.polyval(numerator[::-1], t) / mp.polyval([*denominator[::-1], 1], t)


def solve(m, n, reference, error, denominator):
    """Coefficients whose relative error at the reference points is +e, -e, +e, ... for one e."""
    size = m + n + 2
    for _ in range(20):
        matrix, right = mp.matrix(size, size), mp.matrix(size, 1)
        for row, t in enumerate(reference):
            sign, value = (-1) ** row, q(t)
            for j in range(m + 1):
                matrix[row, j] = t**j
            for j in range(n):
                matrix[row, m + 1 + j] = -value * (1 + sign * error) * t ** (j + 1)
            matrix[row, size - 1] = -value * sign * mp.polyval([*denominator[::-1], 1], t)
            right[row] = value * (1 + sign * error)
        x = mp.lu_solve(matrix, right)
        numerator, denominator = list(x[: m + 1]), list(x[m + 1 : size - 1])
        error += x[size - 1]
        if abs(x[size - 1]) < abs(error) * mp.mpf(10) ** -12:
            break
    return numerator, denominator, error


def remez(m, n):
    grid = list(points(1200))
    values = [q(t) for t in grid]
    reference, error, denominator = list(points(m + n + 2)), mp.mpf(0), [mp.mpf(0)] * n
    for _ in range(30):
        numerator, denominator, error = solve(m, n, reference, error, denominator)
        errors = [evaluate(numerator, denominator, t) / v - 1 for t, v in zip(grid, values)]
        # The largest error of each run of one sign.
        peaks = [0]
        for i, e in enumerate(errors):
            if mp.sign(e) != mp.sign(errors[peaks[-1]]):
                peaks.append(i)
            elif abs(e) > abs(errors[peaks[-1]]):
                peaks[-1] = i
        while len(peaks) > m + n + 2:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        reference = [grid[i] for i in peaks]
        largest = max(abs(e) for e in errors)
        if largest < abs(error) * mp.mpf("1.0005"):
            return numerator, denominator, largest
    sys.exit("no convergence")


def fp32(x):
    return mp.mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


if __name__ == "__main__":
    m, n = map(int, sys.argv[1:3] if len(sys.argv) == 3 else (4, 5))
    numerator, denominator, largest = remez(m, n)
    rounded = [[fp32(x) for x in side] for side in (numerator, denominator)]
    left = max(abs(evaluate(*rounded, t) / q(t) - 1) for t in points(5000))
    print("numerator, from the constant on:  ", *(mp.nstr(x, 9) for x in numerator))
    print("denominator, from t on:           ", *(mp.nstr(x, 9) for x in denominator))
    print("relative error", mp.nstr(largest, 4), "= 2^" + mp.nstr(mp.log(largest, 2), 4), end="; ")
    print("coefficients of fp32", mp.nstr(left, 4), "= 2^" + mp.nstr(mp.log(left, 2), 4))
