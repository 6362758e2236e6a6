// SQLCipher declares what takes keys only to those who say that they know of it.
#define SQLITE_HAS_CODEC 1
#include "../CSQLite/additions.h"
