#pragma once
#include <stddef.h>
#include <stdint.h>

/// libFuzzer's main function: https://llvm.org/docs/LibFuzzer.html#using-libfuzzer-as-a-library
int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*run)(const uint8_t *data, size_t size));
