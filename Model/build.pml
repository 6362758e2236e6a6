/*
 * The move by a build: all of a table's rows are copied into a hidden table of the target, each of its b-trees in its own
 * order, while the live table has what the application writes; then the two exchange their b-trees in one transaction. Two
 * processes make steps, and any of them dies, or the power fails, at any moment. The engine does less: Docs/Model.md
 * tells what. It begins where the table is claimed and fenced, as Model/midstream.pml has it.
 *
 * A transaction of the target is one step of the model, as there.
 */

#include "common.pml"

/* A cursor that has passed all. */
#define PASSED ROWS

/* CANCELLED: the rows of the live table return, by Model/undo.pml. */
#define COPYING 2
#define COPIED 3
#define RETIRING 4
#define DONE 5
#define CANCELLED 6

/* What is done while rows are COPYING. INSERTING: the other way, which inserts what is pending into the live table. */
#define BUILDING 0
#define INDEXING 1
#define MERGING 2
#define INSERTING 3

/* What the application writes: twice, so that a write which is forgotten shows. */
#define NEWER 3

/* The target's file. What stands here commits together. There are two tables with an index each: the live one and the build. Which
   of them has the live one's name is what `sqlite_master` says of the root pages. */
typedef Target {
    byte row[2 * ROWS];
    byte entry[2 * ROWS];   /* of the index: what it says of the row */
    byte text[2];           /* by which definition each of them was made */
    bit live;               /* the one that has the name */
    byte schema;            /* schema_version */
    bool ledger[ROWS];      /* keys of source rows that are superseded */
    bool noted[ROWS];       /* keys of the live table that the build has yet to learn of */
    bool early[ROWS];       /* keys whose rows in the build are not the source's */
    byte cursor;            /* of the slices that are made */
    byte phase;
    byte way;
    bool guard;
#ifdef LIVENESS
    byte rounds;            /* how often something was merged */
#endif
    byte whole[ROWS];       /* ghost: the table as the application must see it in this state */
}

Target target;              /* as committed */
#ifdef POWER
Target disk;                /* as a power loss would leave it: some commits ago */
#endif

byte source[ROWS];          /* fenced: nobody writes it */
bool dropped;               /* the source's table is gone */

/* Others change the live table's definition so often, and a move is begun by BUILDING again so often. */
#ifndef CHANGES
#define CHANGES 1
#endif
byte changes = CHANGES;

/* A reader has a snapshot of the target from before the exchange. */
bool reading;
bool working[PROCESSES];
/* What connections have read of the schema: its number, and which of the tables is the live one. */
byte numberOf[PROCESSES + 1];
bit liveOf[PROCESSES + 1];
#define WRITER PROCESSES

#define isPending(k) ((target.phase == COPYING || target.phase == CANCELLED) && !target.ledger[k] && source[k] != NONE)
#define at(t, k) ((t) * ROWS + (k))
#define build (1 - target.live)

#if ROWS == 1
#define allMerged (!target.noted[0])
#else
#define allMerged (!target.noted[0] && !target.noted[1])
#endif
/* So that no write waits long, only little may be left when the tables exchange. Whoever writes faster than that is merged would keep
   them from it for ever: so the other way is taken after some rounds. */
#ifdef LIVENESS
#define isLittleLeft allMerged
#define merges target.rounds++
#ifdef BUG_ONE_WAY
#define MOST_ROUNDS 255
#undef merges
#define merges skip
#else
#define MOST_ROUNDS 2
#endif
#define mayMergeAgain (target.rounds < MOST_ROUNDS)
#else
#define isLittleLeft true
#define merges skip
#define mayMergeAgain true
#endif
#ifdef BUG_TEXT_UNCHECKED
#define isOfText true
#else
#define isOfText (target.text[0] == target.text[1])
#endif
#ifdef BUG_MERGE_EARLY
#define mayMerge (target.way == MERGING || target.way == INDEXING)
#else
#define mayMerge (target.way == MERGING)
#endif
#ifdef BUG_ADOPT_CANCELLED
#define mayStillAdopt (target.phase == COPYING || target.phase == CANCELLED)
#else
#define mayStillAdopt (target.phase == COPYING)
#endif

/*
 * The properties. Who begins to read now must see each row once, with its last committed value, by the table and by its index;
 * so nothing is lost, and nothing is there twice.
 */
inline check() {
    d_step {
        for (i : 0 .. ROWS - 1) {
            if
            :: isPending(i) ->
                assert(target.row[at(target.live, i)] == NONE);     /* or it would be there twice */
                assert(!dropped);                                   /* or it would be lost */
                assert(source[i] == target.whole[i])
            :: else -> assert(target.row[at(target.live, i)] == target.whole[i])
            fi;
            assert(target.entry[at(target.live, i)] == target.row[at(target.live, i)]) /* or the index would be damaged */
        };
        i = 0;
        assert(target.guard == (target.phase == COPYING || target.phase == CANCELLED));
        assert(target.phase == COPYING || target.phase == CANCELLED || target.text[target.live] == CHANGES - changes)
    }
}

inline sync() {
#ifdef POWER
    d_step {
        for (i : 0 .. ROWS - 1) {
            disk.row[i] = target.row[i];
            disk.row[ROWS + i] = target.row[ROWS + i];
            disk.entry[i] = target.entry[i];
            disk.entry[ROWS + i] = target.entry[ROWS + i];
            disk.ledger[i] = target.ledger[i];
            disk.noted[i] = target.noted[i];
            disk.early[i] = target.early[i];
            disk.whole[i] = target.whole[i]
        };
        i = 0;
        disk.text[0] = target.text[0];
        disk.text[1] = target.text[1];
        disk.live = target.live;
        disk.schema = target.schema;
        disk.cursor = target.cursor;
        disk.phase = target.phase;
        disk.way = target.way;
        disk.guard = target.guard
    }
#else
    skip
#endif
}

inline commit() {
    check();
#ifdef POWER
    if
    :: sync()
    :: skip
    fi
#endif
}

/* A transaction of a connection begins: it reads the schema again where the number is another. */
inline opens(c) {
    if
    :: numberOf[c] != target.schema -> numberOf[c] = target.schema; liveOf[c] = target.live
    :: else
    fi
}

/* The build is made anew: another definition, or another way. */
inline clear() {
    for (k : 0 .. ROWS - 1) {
        target.row[at(build, k)] = NONE;
        target.entry[at(build, k)] = NONE;
        target.early[k] = false
    };
    k = 0;
    target.cursor = 0
}

/* All rows are in the live table, by whichever way. */
inline complete() {
    for (k : 0 .. ROWS - 1) {
        assert(!isPending(k));
        target.ledger[k] = false;
        target.noted[k] = false
    };
    k = 0;
    target.phase = COPIED;
    target.guard = false;
    target.cursor = 0;
    target.way = BUILDING
}

/* ---------------------------------------------------------------------------------------------------------------------
 * A process that makes steps.
 */
proctype Process(byte p) {
    byte i, k, upper, from;

begin:
    atomic {
        working[p] = false;
        upper = 0;
        from = 0;
        numberOf[p] = target.schema;        /* it has died, or has reset its schema: another connection then */
        liveOf[p] = target.live
    };

end_look:
    if
    :: atomic { target.phase == COPYING -> working[p] = true; from = target.cursor };
        if
        :: target.way == BUILDING -> goto rows
        :: target.way == INDEXING -> goto entries
        :: target.way == MERGING -> goto merge
        :: target.way == INSERTING -> goto insert
        fi
    :: atomic { target.phase == COPIED || target.phase == RETIRING -> working[p] = true }; goto drop
    fi;

    /* ----- A slice of rows, as the application sees them at that moment: the source's, and the live table's. ----- */
rows:
    if
    :: atomic {
        target.phase == COPYING && target.way == BUILDING && target.cursor < PASSED ->
#ifndef BUG_CURSOR_OUTSIDE
        from = target.cursor;
#endif
        select(upper : from + 1 .. ROWS);
        for (k : 0 .. ROWS - 1) {
            if
            :: k >= from && k < upper ->
                assert(target.row[at(build, k)] == NONE);       /* or the key would be there twice */
                if
                :: isPending(k) -> target.row[at(build, k)] = source[k]
                :: else ->
                    target.row[at(build, k)] = target.row[at(target.live, k)];
                    target.early[k] = true;
                    target.noted[k] = false
                fi
            :: else
            fi
        };
        k = 0;
#ifdef BUG_CURSOR_APART
        commit()
       }
    :: atomic { killed(p) }
    fi;
    if
    :: atomic {
        true ->
#endif
        target.cursor = upper;
        commit();
        goto begin
       }
    :: atomic {
        target.phase == COPYING && target.way == BUILDING && target.cursor == PASSED ->
        target.way = INDEXING;
        target.cursor = 0;
        commit();
        goto begin
       }
    :: atomic { !(target.phase == COPYING && target.way == BUILDING) -> goto begin }
    :: atomic { killed(p) }
    fi;

    /* ----- A slice of an index, in its own order: here the other way round. Its entries are those of the rows that were built: of
       the source's index, and for keys that were superseded before they were built, of the build's rows, sorted. ----- */
entries:
    if
    :: atomic {
        target.phase == COPYING && target.way == INDEXING && target.cursor < PASSED ->
#ifndef BUG_CURSOR_OUTSIDE
        from = target.cursor;
#endif
        select(upper : from + 1 .. ROWS);
        for (k : 0 .. ROWS - 1) {
            if
            :: ROWS - 1 - k >= from && ROWS - 1 - k < upper ->
                assert(target.entry[at(build, k)] == NONE);
                if
#ifdef BUG_INDEX_OF_SOURCE
                :: true -> target.entry[at(build, k)] = source[k]
#elif defined(BUG_INDEX_OF_UNION)
                :: isPending(k) -> target.entry[at(build, k)] = source[k]
                :: else -> target.entry[at(build, k)] = target.row[at(target.live, k)]
#else
                :: !target.early[k] -> target.entry[at(build, k)] = source[k]
                :: else -> target.entry[at(build, k)] = target.row[at(build, k)]
#endif
                fi
            :: else
            fi
        };
        k = 0;
        target.cursor = upper;
        commit();
        goto begin
       }
    /* Count and sum of each index are those of the rows. */
    :: atomic {
        target.phase == COPYING && target.way == INDEXING && target.cursor == PASSED ->
        for (k : 0 .. ROWS - 1) { assert(target.entry[at(build, k)] == target.row[at(build, k)]) };
        k = 0;
        target.way = MERGING;
        commit();
        goto begin
       }
    :: atomic { mayMerge && target.phase == COPYING && target.way == INDEXING -> goto merge }
    :: atomic { !(target.phase == COPYING && target.way == INDEXING) -> goto begin }
    :: atomic { killed(p) }
    fi;

    /* ----- A superseded key leaves the build, and what the live table has of it comes in, by statements of SQLite: an entry that is
       to be deleted must be there. ----- */
merge:
    if
    :: atomic {
        target.phase == COPYING && mayMerge && !allMerged && mayMergeAgain ->
        merges;
        do
        :: target.noted[k] -> break
        :: !target.noted[k] -> k++
        od;
        assert(target.entry[at(build, k)] == target.row[at(build, k)]);     /* or it is the error SQLITE_CORRUPT */
        target.row[at(build, k)] = target.row[at(target.live, k)];
        target.entry[at(build, k)] = target.entry[at(target.live, k)];
        target.noted[k] = false;
        k = 0;
        commit();
        goto begin
       }
    /* Adopting, with what is left to merge in the same transaction. */
    :: atomic {
        mayStillAdopt && target.way == MERGING && isOfText && isLittleLeft ->
        opens(p);
#ifndef BUG_ADOPT_UNMERGED
        for (k : 0 .. ROWS - 1) {
            if
            :: target.noted[k] ->
                target.row[at(build, k)] = target.row[at(target.live, k)];
                target.entry[at(build, k)] = target.entry[at(target.live, k)];
                target.noted[k] = false
            :: else
            fi
        };
        k = 0;
#endif
        for (k : 0 .. ROWS - 1) { target.ledger[k] = true };
        k = 0;
        target.live = build;
#ifndef BUG_NO_NUMBER
        target.schema++;
        numberOf[p] = target.schema;        /* it is its own */
#endif
#ifndef BUG_NO_RESET
        liveOf[p] = target.live;
#endif
        complete();
        commit();
#ifdef BUG_DROP_AT_ONCE
        dropped = true;
        check();
#endif
        goto drop
       }
#ifdef LIVENESS
    :: atomic {
        target.phase == COPYING && target.way == MERGING && !isLittleLeft && !mayMergeAgain ->
        clear();
        target.way = INSERTING;
        commit();
        goto begin
       }
#endif
    /* Others have made the live table, or an index of it, anew. */
    :: atomic {
        target.phase == COPYING && target.way == MERGING && !isOfText ->
        clear();
        target.text[build] = target.text[target.live];
        target.way = BUILDING;
        for (k : 0 .. ROWS - 1) { target.noted[k] = false };
        k = 0;
        commit();
        goto begin
       }
    :: atomic { !(target.phase == COPYING && target.way == MERGING) -> goto begin }
    :: atomic { killed(p) }
    fi;

    /* ----- The other way, chosen whenever the application has written too much: what is pending is inserted into the live
       table. ----- */
insert:
    if
    :: atomic {
        target.phase == COPYING && target.way == INSERTING && target.cursor < PASSED ->
        opens(p);
        from = target.cursor;
        select(upper : from + 1 .. ROWS);
        for (k : 0 .. ROWS - 1) {
            if
            :: k >= from && k < upper && isPending(k) ->
                target.row[at(liveOf[p], k)] = source[k];
                target.entry[at(liveOf[p], k)] = source[k];
                target.ledger[k] = true
            :: else
            fi
        };
        k = 0;
        target.cursor = upper;
        commit();
        goto begin
       }
    :: atomic {
        target.phase == COPYING && target.way == INSERTING && target.cursor == PASSED ->
        complete();
        commit();
        goto drop
       }
    :: atomic { !(target.phase == COPYING && target.way == INSERTING) -> goto begin }
    :: atomic { killed(p) }
    fi;

    /* ----- The build is dropped, in steps, by its name: the connection tells which b-trees that are. ----- */
drop:
    if
    :: atomic {
        target.phase == COPIED ->
#ifndef BUG_NO_RESET
        opens(p);
#endif
        for (k : 0 .. ROWS - 1) {
            target.row[at(1 - liveOf[p], k)] = NONE;
            target.entry[at(1 - liveOf[p], k)] = NONE
        };
        k = 0;
        target.phase = RETIRING;
        commit()
       }
    :: atomic { target.phase != COPIED -> skip }
    :: atomic { killed(p) }
    fi;
#ifndef BUG_NO_SYNC
    if
    :: atomic { sync() }
    :: atomic { killed(p) }
    fi;
#endif
    /* Retirement, as Model/midstream.pml has it. */
    if
#ifndef BUG_NO_PROOF
    :: atomic { !reading && target.phase != COPYING && target.phase != CANCELLED -> skip }
    :: atomic { target.phase == COPYING || target.phase == CANCELLED -> goto begin }
#else
    :: atomic { target.phase != COPYING && target.phase != CANCELLED -> skip }
#endif
    :: atomic { killed(p) }
    fi;
#ifndef BUG_NO_SYNC
    if
    :: atomic { sync() }
    :: atomic { killed(p) }
    fi;
#endif
    if
    :: atomic { dropped = true; check() }
    :: atomic { killed(p) }
    fi;
    if
    :: atomic { target.phase == RETIRING -> target.phase = DONE; commit(); sync(); goto begin }
    :: atomic { target.phase != RETIRING -> goto begin }
    :: atomic { killed(p) }
    fi
}

/* ---------------------------------------------------------------------------------------------------------------------
 * The application's write transactions, of all processes: one at a time has the target's write lock.
 */

/* The row comes into the live table, and the ledger; the build is to learn of it. */
inline promote(k) {
    if
    :: isPending(k) ->
        target.row[at(liveOf[WRITER], k)] = source[k];
        target.entry[at(liveOf[WRITER], k)] = source[k];
        target.ledger[k] = true;
        target.noted[k] = true
    :: else
    fi
}

/* The guard triggers note each write of a key that is superseded. */
inline writes(k, value) {
    target.row[at(liveOf[WRITER], k)] = value;
    target.entry[at(liveOf[WRITER], k)] = value;
    target.whole[k] = value;
#ifndef BUG_NOT_NOTED
    target.noted[k] = target.phase == COPYING
#endif
}

proctype Writer() {
    byte i, k;

end:
    do
    /* UPDATE, DELETE, INSERT. */
    :: atomic {
        opens(WRITER);
        select(k : 0 .. ROWS - 1);
        promote(k);
        if
        :: target.whole[k] != NONE -> writes(k, NEW)
        :: target.whole[k] != NONE -> writes(k, NEWER)
        :: target.whole[k] != NONE -> writes(k, NONE)
        :: target.whole[k] == NONE -> writes(k, NEW)
        fi;
        commit();
        k = 0
       }
    /* All that is pending is needed in the application's own transaction: it comes into the live table. */
    :: atomic {
        target.phase == COPYING ->
        opens(WRITER);
        for (k : 0 .. ROWS - 1) { promote(k) };
        complete();
        commit();
        k = 0
       }
    od
}

/* What the engine decides from counts at any time, what its user decides, and what other programs do to the table. */
proctype Others() {
    byte i, k;

end:
    do
#ifndef LIVENESS
    :: atomic {
        target.phase == COPYING && target.way != INSERTING ->
        clear();
        target.way = INSERTING;
        commit()
       }
    /* The build goes, and the rows of the live table return. */
    :: atomic {
        target.phase == COPYING ->
        clear();
        target.phase = CANCELLED;
        commit()
       }
#endif
    /* CREATE INDEX, ALTER TABLE, or DROP and CREATE. */
    :: atomic {
        changes > 0 ->
        changes--;
        target.text[target.live]++;
        target.schema++;
        commit()
       }
    od
}

/* One that has a snapshot of the target, and then reads of the source what is pending in that. */
proctype Reader() {
    byte i;
    byte expected[ROWS];

end:
    do
    :: atomic {
        target.phase == COPYING ->
        for (i : 0 .. ROWS - 1) {
            if
            :: isPending(i) -> expected[i] = target.whole[i]
            :: else
            fi
        };
        i = 0;
        reading = true
       };
       atomic {
        for (i : 0 .. ROWS - 1) {
            assert(expected[i] == NONE || !dropped && source[i] == expected[i]);
            expected[i] = NONE
        };
        i = 0;
        reading = false
       }
    od
}

#ifdef POWER
/* Others' DDL is taken to be on the disk, since whether it is lost makes no difference to the move. */
proctype Power() {
    byte i;

end:
    do
    :: atomic {
        mayFail && !reading && !working[0] && !working[1] ->
        fails;
        d_step {
            for (i : 0 .. ROWS - 1) {
                target.row[i] = disk.row[i];
                target.row[ROWS + i] = disk.row[ROWS + i];
                target.entry[i] = disk.entry[i];
                target.entry[ROWS + i] = disk.entry[ROWS + i];
                target.ledger[i] = disk.ledger[i];
                target.noted[i] = disk.noted[i];
                target.early[i] = disk.early[i];
                target.whole[i] = disk.whole[i]
            };
            i = 0;
            target.text[0] = disk.text[0];
            target.text[1] = disk.text[1];
            target.live = disk.live;
            target.cursor = disk.cursor;
            target.phase = disk.phase;
            target.way = disk.way;
            target.guard = disk.guard;
            target.schema = disk.schema;
            /* Every connection is another one. */
            numberOf[WRITER] = target.schema;
            liveOf[WRITER] = target.live;
            numberOf[0] = target.schema;
            liveOf[0] = target.live;
            numberOf[1] = target.schema;
            liveOf[1] = target.live
        };
        changes = CHANGES - target.text[target.live];
        check()
       }
    od
}
#endif

init {
    byte i;
    atomic {
        for (i : 0 .. ROWS - 1) {
            if
            :: source[i] = OLD;
               target.whole[i] = OLD
            :: /* The live table has rows before the move begins. */
               target.row[i] = NEW;
               target.entry[i] = NEW;
               target.whole[i] = NEW
            fi
        };
        i = 0;
        target.phase = COPYING;
        target.guard = true;
        sync();
        run Process(0);
        run Process(1);
        run Writer();
        run Others();
        run Reader();
#ifdef POWER
        run Power()
#endif
    }
}

/* Under weak fairness: what can always go on does so some time, however fast the application writes. */
#ifdef LIVENESS
ltl ends { <> [] (target.phase == DONE && dropped) }
#endif
