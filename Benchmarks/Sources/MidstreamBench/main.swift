import Midstream

print("midstream-bench: no benchmarks yet")
