// SQLCipher's own header, which declares the keying functions only to those who say that they have a codec, and the
// same additions as for plain SQLite.

#define SQLITE_HAS_CODEC 1
#include <sqlite3.h>
#include "../CSQLite/additions.h"
