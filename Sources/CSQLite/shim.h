#include "additions.h"
