"""Independent transcription of Rng: prints the golden values of tests/core/random_test.cpp.

Integer arithmetic is exact in Python, and its floats are IEEE doubles without contraction; log and
turn are the series written in the comments of src/core/random.cpp.
"""
import math
import struct

MASK = (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def words(key, substream, counter):
    parts = lambda x: (x & 0xFFFFFFFF, x >> 32)
    b = philox((*parts(counter), *parts(substream)), parts(key))
    return b[0] | b[1] << 32, b[2] | b[3] << 32


def unit(bits):
    return (bits >> 11) * 2.0**-53


def log(x):
    bits = struct.unpack("<Q", struct.pack("<d", x))[0]
    exponent = (bits >> 52) - 1023
    m = struct.unpack("<d", struct.pack("<Q", bits & 0x000FFFFFFFFFFFFF | 0x3FF0000000000000))[0]
    if m > 1.4142135623730951:
        m, exponent = m * 0.5, exponent + 1
    s = (m - 1) / (m + 1)
    s2, series = s * s, 0.0
    for k in range(21, 0, -2):
        series = series * s2 + 1.0 / k
    return exponent * 0.6931471805599453 + 2 * s * series


def cosine(u):
    quadrant = (int(u * 8) + 1) // 2
    x = 6.283185307179586 * (u - quadrant * 0.25)
    x2, c, term = x * x, 1.0, 1.0
    for k in range(2, 19, 2):
        term *= -x2 / (k * (k - 1.0))
        c += term
    s, term = x, x
    for k in range(3, 20, 2):
        term *= -x2 / (k * (k - 1.0))
        s += term
    return (c, -s, -c, s)[quadrant & 3]


def main():
    key = mix(42 ^ mix(0))  # seed 42, the init stream
    normals = []
    for i in range(8):
        a, b = words(key, 0, i)
        normals.append(math.sqrt(-2 * log(1.0 - unit(a))) * cosine(unit(b)))
    print(", ".join(repr(z) for z in normals))
    print(", ".join(str(words(key, 0, 8 + i)[0] % 1000) for i in range(8)))


main()
