/* What the models of the protocol have in common: rows, and how processes die and the power fails. */

#ifndef ROWS
#define ROWS 2
#endif
#define PROCESSES 2

/* What a row can be. */
#define NONE 0
#define OLD 1
#define NEW 2

/* How often a process may die, and the power fail; without a bound where none is given. */
#ifdef DEATHS
byte deaths = DEATHS;
#define mayDie (deaths > 0)
#define dies deaths--
#else
#define mayDie true
#define dies skip
#endif
#ifdef BLACKOUTS
byte blackouts = BLACKOUTS;
#define mayFail (blackouts > 0)
#define fails blackouts--
#else
#define mayFail true
#define fails skip
#endif

/* A process may die before a step: then it begins anew. */
#define killed(p) mayDie -> dies; goto begin
