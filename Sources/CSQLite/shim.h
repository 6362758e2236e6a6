// The system's SQLite, and what Swift cannot import of it.

#include <sqlite3.h>
#include "additions.h"
