try decodeBenchmark()
