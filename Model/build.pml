/*
 * The move by a build: all of a table's rows are copied into a hidden table of the target, each of its b-trees in its own
 * order, while the live table has what the application writes. Then what was built is compared with what the application sees, and the
 * two tables exchange their b-trees in one transaction. Two processes make steps, and any of them dies, or the power fails, at any
 * moment. The model begins where the source is claimed and fenced, as Model/midstream.pml has it.
 *
 * A transaction of the target is one step of the model, as there. So is what a process reads in one snapshot.
 *
 * -DSOURCES=2   another source's rows begin to move into the same table, at any time while it is built
 * -DREFUSED     the target refuses rows of the source
 * -DALONE       a build may fail for a unique index, and begins anew with the source's rows alone; with neither of the others
 */

#include "common.pml"

#ifndef SOURCES
#define SOURCES 1
#endif

/* CANCELLED: the rows of the live table return, by Model/undo.pml. */
#define ABSENT 0
#define COPYING 2
#define COPIED 3
#define RETIRING 4
#define DONE 5
#define CANCELLED 6

/* What is done while rows are COPYING. MERGED: what was built is compared, and adopted. LEAVING, COMING: what was written is merged in
   slices before that. INSERTING: the other way, in batches, which inserts what is pending into the live table. */
#define UNBEGUN 0
#define BUILDING 1
#define INDEXING 2
#define MERGED 3
#define LEAVING 4
#define COMING 5
#define INSERTING 6

/* What the application writes: twice, so that a write which is forgotten shows. */
#define NEWER 3
/* What a row of the second source is. */
#define OTHER 4

/* The target's file. What stands here commits together. There are two tables with an index each: the live one and the build. Which
   of them has the live one's name is what `sqlite_master` says of the root pages. */
typedef Target {
    byte row[2 * ROWS];
    byte entry[2 * ROWS];   /* of the index: what it says of the row */
    byte text[2];           /* by which definition each of them was made */
    bit live;               /* the one that has the name */
    bool ledger[SOURCES * ROWS];    /* keys of source rows that are superseded, of each source */
    bool merged[ROWS];      /* keys whose rows in the build are not the source's */
    byte cursor;            /* of the slices that are made */
    byte way;
    byte phase[SOURCES];
    bool guard[SOURCES];
#if SOURCES == 2
    bool joined;            /* the build's definition has the second source */
#endif
#ifdef ALONE
    bool alone;             /* the build is to have the source's rows alone */
#endif
#ifdef LIVENESS
    byte rounds;            /* how often what was written was merged */
#endif
    byte whole[ROWS];       /* ghost: the table as the application must see it in this state */
}

Target target;              /* as committed */
#ifdef POWER
Target disk;                /* as a power loss would leave it: some commits ago */
#endif

byte source[SOURCES * ROWS];    /* fenced: nobody writes it */
bool dropped[SOURCES];      /* the source's table is gone */
#ifdef REFUSED
bool refused[ROWS];         /* the target does not take the first source's row */
#define isRefused(s, k) (s == 0 && refused[k])
#endif

/* Others change the live table's definition so often. */
#ifndef CHANGES
#define CHANGES 1
#endif
byte changes = CHANGES;

/* A reader has a snapshot of the target from before the exchange. */
bool reading;
bool working[PROCESSES];
/* The build has all that was written, as the process knows, and nobody else has committed anything since: its `PRAGMA data_version` is
   what it was. */
bool compared[PROCESSES];
/* Which of the tables is the live one, as the writers' connections have read the schema; and whether the schema's number is another
   since. */
bit known;
bool isRaised;
#define WRITER PROCESSES

#define at(t, k) ((t) * ROWS + (k))
#define of(s, k) ((s) * ROWS + (k))
#define build (1 - target.live)
#define isMoving(s) (target.phase[s] == COPYING)
#define isOpen(s) (target.phase[s] == COPYING || target.phase[s] == CANCELLED)
#define isPending(s, k) (isOpen(s) && !target.ledger[of(s, k)] && source[of(s, k)] != NONE)

#if SOURCES == 1
#define isAnyPending(k) isPending(0, k)
#define pendingRow(k) source[of(0, k)]
#define isFed(k) isPending(0, k)
#define isSuperseded(k) target.ledger[of(0, k)]
#define areMoving isMoving(0)
#define isAnyMoving isMoving(0)
#define isOfFeeds true
#else
#define isAnyPending(k) (isPending(0, k) || isPending(1, k))
#define pendingRow(k) (isPending(0, k) -> source[of(0, k)] : source[of(1, k)])
/* The row is one of a source that the build has. */
#define isFed(k) (isPending(0, k) || target.joined && isPending(1, k))
#define isSuperseded(k) (target.ledger[of(0, k)] || target.joined && target.ledger[of(1, k)])
#define areMoving (isMoving(0) && (isMoving(1) || target.phase[1] == ABSENT))
#define isAnyMoving (isMoving(0) || isMoving(1))
#ifdef BUG_SECOND_IGNORED
#define isOfFeeds true
#else
#define isOfFeeds (target.joined == isMoving(1))
#endif
#endif

#ifdef ALONE
#define isAlone target.alone
#else
#define isAlone false
#endif

#ifdef BUG_TEXT_UNCHECKED
#define isOfText true
#else
#define isOfText (target.text[0] == target.text[1])
#endif
#define isBuilt (target.way >= BUILDING && target.way <= COMING)
/* What each transaction of a build looks at. */
#define isCurrent (areMoving && isOfText && isOfFeeds)
#ifdef BUG_ADOPT_CANCELLED
#define mayAdopt isOfText
#else
#define mayAdopt isCurrent
#endif
/* What was built is still what the process saw. */
#ifdef BUG_PARTS_UNCHECKED
#define isComplete isBuilt
#else
#define isComplete (target.way == MERGED)
#endif
#ifdef BUG_MERGE_EARLY
#define mayMerge (target.way == MERGED || target.way == INDEXING)
#else
#define mayMerge (target.way == MERGED)
#endif

/* The comparison. A row that was built has to leave when it may be another one than the live one and is so. The keys of which that may be
   are the ledgers' and those of `merged`. With several sources it may be pending in another than the one whose ledger has its key. */
#ifdef BUG_LEDGER_UNCOMPARED
#define isWritten(k) (target.merged[k] || target.row[at(target.live, k)] != NONE)
#elif defined(BUG_MERGED_UNCOMPARED)
#define isWritten(k) isSuperseded(k)
#else
#define isWritten(k) (target.merged[k] || isSuperseded(k))
#endif
#ifdef BUG_PENDING_LEAVES
#define isKept(k) false
#elif SOURCES == 1
#define isKept(k) false
#else
#define isKept(k) isFed(k)
#endif
#define leaves(k) \
    (target.row[at(build, k)] != NONE && isWritten(k) && target.row[at(build, k)] != target.row[at(target.live, k)] && !isKept(k))
#define comes(k) (target.row[at(build, k)] == NONE && target.row[at(target.live, k)] != NONE)
#define isUnmerged(k) (leaves(k) || comes(k))
#if ROWS == 1
#define isAnyUnmerged isUnmerged(0)
#else
#define isAnyUnmerged (isUnmerged(0) || isUnmerged(1))
#endif

/* So that no write waits long, only little may be left when the tables exchange; otherwise it is merged again. Whoever writes faster
   than that would keep them from it for ever. So after some rounds others wait once for more; where even that is not enough, the
   other way is taken. */
#ifdef LIVENESS
#define merges target.rounds++
#ifdef BUG_ONE_WAY
#define MOST_ROUNDS 255
#undef merges
#define merges skip
#else
#define MOST_ROUNDS 2
#endif
#define isAtLast (target.rounds >= MOST_ROUNDS)
#define isLittleLeft (compared[p] || !isAnyUnmerged || isAtLast)
#define mayMergeAgain (!compared[p] && isAnyUnmerged && !isAtLast)
#define mayGiveUp (!compared[p] && isAnyUnmerged && isAtLast)
#else
#define merges skip
#define isLittleLeft true
#define mayMergeAgain true
#endif

/*
 * The properties. Who begins to read now must see each row once, with its last committed value, by the table and by its index;
 * so nothing is lost, and nothing is there twice.
 */
inline check() {
    d_step {
        for (i : 0 .. ROWS - 1) {
            if
            :: isAnyPending(i) ->
                assert(target.row[at(target.live, i)] == NONE);     /* or it would be there twice */
                assert(!(isPending(0, i) && dropped[0]));           /* or it would be lost */
#if SOURCES == 2
                assert(!(isPending(1, i) && dropped[1]));
                assert(!(isPending(0, i) && isPending(1, i)));
#endif
                assert(pendingRow(i) == target.whole[i])
            :: else -> assert(target.row[at(target.live, i)] == target.whole[i])
            fi;
#ifdef REFUSED
            assert(!refused[i] || target.row[at(target.live, i)] != OLD);
#endif
            assert(target.entry[at(target.live, i)] == target.row[at(target.live, i)]) /* or the index would be damaged */
        };
        i = 0;
        assert(target.guard[0] == isOpen(0));
#if SOURCES == 2
        assert(target.guard[1] == isOpen(1));
#endif
        assert(target.text[target.live] == CHANGES - changes)
    }
}

#if SOURCES == 2
#define copiesOfFeeds(to, of) to.joined = of.joined
#else
#define copiesOfFeeds(to, of) skip
#endif
#ifdef ALONE
#define copiesOfAlone(to, of) to.alone = of.alone
#else
#define copiesOfAlone(to, of) skip
#endif
#define copies(to, of) \
    for (i : 0 .. ROWS - 1) { \
        to.row[i] = of.row[i]; \
        to.row[ROWS + i] = of.row[ROWS + i]; \
        to.entry[i] = of.entry[i]; \
        to.entry[ROWS + i] = of.entry[ROWS + i]; \
        to.merged[i] = of.merged[i]; \
        to.whole[i] = of.whole[i] \
    }; \
    for (i : 0 .. SOURCES * ROWS - 1) { to.ledger[i] = of.ledger[i] }; \
    for (i : 0 .. SOURCES - 1) { \
        to.phase[i] = of.phase[i]; \
        to.guard[i] = of.guard[i] \
    }; \
    i = 0; \
    copiesOfFeeds(to, of); \
    copiesOfAlone(to, of); \
    to.text[0] = of.text[0]; \
    to.text[1] = of.text[1]; \
    to.live = of.live; \
    to.cursor = of.cursor; \
    to.way = of.way

inline sync() {
#ifdef POWER
    d_step { copies(disk, target) }
#else
    skip
#endif
}

/* A commit, by whom: the number that tells it is another one for all other connections from then on. */
inline commit(who) {
#ifdef BUG_VERSION_UNCHECKED
    skip;
#else
    if
    :: who != 0 -> compared[0] = false
    :: else
    fi;
    if
    :: who != 1 -> compared[1] = false
    :: else
    fi;
#endif
    check();
#ifdef POWER
    if
    :: sync()
    :: skip
    fi
#endif
}

/* The build is dropped. */
inline clear() {
    for (k : 0 .. ROWS - 1) {
        target.row[at(build, k)] = NONE;
        target.entry[at(build, k)] = NONE;
        target.merged[k] = false
    };
    k = 0;
#if SOURCES == 2
    target.joined = false;
#endif
#ifdef LIVENESS
    target.rounds = 0;
#endif
    target.text[build] = target.text[target.live];
    target.cursor = 0
}

/* A process forgets what it has compared when it drops a build, begins one, and fills one. */
#ifdef BUG_VERSION_KEPT
#define forgets(p) skip
#else
#define forgets(p) compared[p] = false
#endif

/* All rows are in the live table, by whichever way: a source's move is over. */
inline completes(s) {
    if
    :: isMoving(s) ->
        for (k : 0 .. ROWS - 1) {
            assert(!isPending(s, k));
            target.ledger[of(s, k)] = false
        };
        k = 0;
        target.phase[s] = COPIED;
        target.guard[s] = false
    :: else
    fi
}

/* The live table has all of a source's rows by now. */
inline supersedes(s) {
    if
    :: isMoving(s) ->
        for (k : 0 .. ROWS - 1) { target.ledger[of(s, k)] = true };
        k = 0
    :: else
    fi
}

/* That of all sources, and the build's. */
inline complete() {
    completes(0);
#if SOURCES == 2 && !defined(BUG_COMPLETE_ONE)
    completes(1);
#endif
    clear();
#ifdef ALONE
    target.alone = false;
#endif
    compared[0] = false;
    compared[1] = false;
    target.way = UNBEGUN
}

/* A source's row comes into the live table. One that the target refuses is set aside, or comes in with other values. */
inline settles(s, k, table) {
#ifdef REFUSED
    if
    :: isRefused(s, k) -> target.whole[k] = NONE
    :: isRefused(s, k) ->
        target.row[at(table, k)] = NEW;
        target.entry[at(table, k)] = NEW;
        target.whole[k] = NEW
    :: else ->
        target.row[at(table, k)] = source[of(s, k)];
        target.entry[at(table, k)] = source[of(s, k)]
    fi;
#else
    target.row[at(table, k)] = source[of(s, k)];
    target.entry[at(table, k)] = source[of(s, k)];
#endif
    target.ledger[of(s, k)] = true
}

inline promotes(k, table) {
    if
    :: isPending(0, k) -> settles(0, k, table)
#if SOURCES == 2
    :: isPending(1, k) -> settles(1, k, table)
#endif
    :: else
    fi
}

/* ---------------------------------------------------------------------------------------------------------------------
 * A process that makes steps.
 */

/* A row that was built leaves, with its entry, which must be where it was built. */
inline leave(k) {
    if
    :: leaves(k) ->
        assert(target.entry[at(build, k)] == target.row[at(build, k)]);     /* or it is the error SQLITE_CORRUPT */
        target.row[at(build, k)] = NONE;
        target.entry[at(build, k)] = NONE
    :: else
    fi
}

inline comeIn(k) {
    if
    :: comes(k) ->
        target.row[at(build, k)] = target.row[at(target.live, k)];
        target.entry[at(build, k)] = target.row[at(target.live, k)];
#ifndef BUG_COMING_UNNOTED
        target.merged[k] = true
#endif
    :: else
    fi
}

/* A slice of rows, as the application sees them at that moment: the sources', and the live table's. */
inline fill() {
    for (k : 0 .. ROWS - 1) {
        if
        :: k >= from && k < upper ->
            assert(target.row[at(build, k)] == NONE);       /* or the key would be there twice */
#ifdef REFUSED
#ifdef BUG_REFUSED_UNSETTLED
            if
            :: isPending(0, k) && refused[k] -> target.merged[k] = true; goto passed
            :: else
            fi;
#else
            /* The live table's row, if any, is what comes into the build then. */
            if
            :: isPending(0, k) && refused[k] -> settles(0, k, target.live)
            :: else
            fi;
#endif
#endif
            if
            :: isFed(k) -> target.row[at(build, k)] = pendingRow(k)
            :: !isFed(k) && isAlone -> target.row[at(build, k)] = source[of(0, k)]
            :: !isFed(k) && !isAlone ->
                target.row[at(build, k)] = target.row[at(target.live, k)];
                target.merged[k] = isSuperseded(k) || target.row[at(target.live, k)] != NONE
            fi;
#ifdef BUG_REFUSED_UNSETTLED
passed:     skip
#endif
        :: else
        fi
    };
    k = 0
}

/* A slice of an index, in its own order: here the other way round. Its entries are those of the rows that were built: of the source's
   index, and for keys that were superseded before they were built, of the build's rows, sorted. Of several sources, no index is copied. */
inline index() {
    for (k : 0 .. ROWS - 1) {
        if
        :: ROWS - 1 - k >= from && ROWS - 1 - k < upper ->
            assert(target.entry[at(build, k)] == NONE);
            if
#ifdef BUG_INDEX_OF_SOURCE
            :: true -> target.entry[at(build, k)] = source[of(0, k)]
#elif defined(BUG_INDEX_OF_UNION)
            :: isAnyPending(k) -> target.entry[at(build, k)] = pendingRow(k)
            :: else -> target.entry[at(build, k)] = target.row[at(target.live, k)]
#elif SOURCES == 1
            :: !target.merged[k] -> target.entry[at(build, k)] = source[of(0, k)]
            :: else -> target.entry[at(build, k)] = target.row[at(build, k)]
#else
            :: true -> target.entry[at(build, k)] = target.row[at(build, k)]
#endif
            fi
        :: else
        fi
    };
    k = 0
}

inline slice() {
#ifndef BUG_CURSOR_OUTSIDE
    from = target.cursor;
#endif
    select(upper : from + 1 .. ROWS)
}

/* The next slice begins behind this one, or with the next thing to do. */
inline passes(next) {
    if
    :: upper < ROWS -> target.cursor = upper
    :: else ->
        target.cursor = 0;
        target.way = next
    fi;
#ifndef BUG_CURSOR_OUTSIDE
    from = 0;
#endif
    upper = 0
}

/* All that was written is merged in slices. When these are over, the number that is read here is another one if anybody has written
   since. */
inline mergesAgain() {
    merges;
    target.way = LEAVING;
    target.cursor = 0;
    commit(p);
#ifdef BUG_VERSION_LATE
    compared[p] = false
#else
    compared[p] = true
#endif
}

proctype Process(byte p) {
    byte i, k, s, upper, from;
#ifdef BUG_BRING_STALE
    byte seen[ROWS];
#endif

begin:
    atomic {
        working[p] = false;
        compared[p] = false;                /* it has died: another connection then. Or all is over */
        s = 0
    };

end_look:
    if
    :: atomic { compared[p] && mayDie -> dies; goto begin }

    /* ----- A build begins, begins anew, or is not to be. ----- */
    :: atomic {
        target.way == UNBEGUN && areMoving ->
        clear();
#if SOURCES == 2
        target.joined = isMoving(1);
#endif
        target.way = BUILDING;
        forgets(p);
        commit(p);
        goto end_look
       }
    /* Others have made the live table, or an index of it, anew, or another source's rows begin to move. */
    :: atomic {
        isBuilt && areMoving && !isCurrent ->
        clear();
        target.way = UNBEGUN;
        forgets(p);
        commit(p);
        goto end_look
       }
#if SOURCES == 2
    /* A source's rows return: those of the other one go in batches. */
    :: atomic {
        isAnyMoving && !areMoving && target.way != INSERTING ->
        clear();
        target.way = INSERTING;
        forgets(p);
        commit(p);
        goto end_look
       }
#endif
#ifdef ALONE
    /* What is merged has the value of a row that has left since, in a unique index. */
    :: atomic {
        (target.way == LEAVING || target.way == COMING || target.way == MERGED) && isCurrent && !target.alone ->
        clear();
        target.alone = true;
        target.way = UNBEGUN;
        forgets(p);
        commit(p);
        goto end_look
       }
#endif
#ifdef BUG_CURSOR_OUTSIDE
    :: atomic { from != target.cursor -> from = target.cursor; goto end_look }
#endif

    /* ----- Slices. ----- */
    :: atomic {
        target.way == BUILDING && isCurrent ->
        slice();
        fill();
        forgets(p);
#ifdef BUG_CURSOR_APART
        commit(p);
        goto apart
#else
        passes(INDEXING);
        commit(p);
        goto end_look
#endif
       }
    :: atomic {
        target.way == INDEXING && isCurrent ->
        slice();
        index();
        passes(MERGED);
        /* Count and sum of each index are those of the rows. */
        if
        :: target.way == MERGED ->
            for (k : 0 .. ROWS - 1) { assert(target.entry[at(build, k)] == target.row[at(build, k)]) };
            k = 0
        :: else
        fi;
        commit(p);
        goto end_look
       }

    /* ----- Merging in slices: each looks anew which rows are others by then, under the lock. ----- */
    :: atomic {
        target.way == LEAVING && isCurrent ->
        slice();
        for (k : 0 .. ROWS - 1) {
            if
            :: k >= from && k < upper -> leave(k)
            :: else
            fi
        };
        k = 0;
        passes(COMING);
        commit(p);
        goto end_look
       }
    :: atomic {
        target.way == COMING && isCurrent ->
        slice();
        for (k : 0 .. ROWS - 1) {
            if
            :: k >= from && k < upper -> comeIn(k)
            :: else
            fi
        };
        k = 0;
        passes(MERGED);
#ifdef BUG_VERSION_LATE
        compared[p] = compared[p] || target.way == MERGED;
#endif
        commit(p);
        goto end_look
       }

#ifndef LIVENESS
    /* A row that has come since has the value of one that has left since, in a unique index: all is merged again. */
    :: atomic {
        (target.way == LEAVING || target.way == COMING) && isCurrent ->
        mergesAgain();
        goto end_look
       }
#endif

    /* ----- Comparing, in a snapshot, without the write lock; but not where nobody has written since the last time. ----- */
    :: atomic {
        mayMerge && isCurrent ->
        working[p] = true;
        compared[p] = compared[p] || !isAnyUnmerged;
#ifdef BUG_BRING_STALE
        for (k : 0 .. ROWS - 1) { seen[k] = target.row[at(target.live, k)] };
        k = 0;
#endif
        goto adopt
       }

    /* ----- The other way, chosen whenever the application has written too much, or what was built does not fit: what is pending is
       inserted into the live table. ----- */
    :: atomic {
        target.way == INSERTING && isAnyMoving ->
        slice();
        for (k : 0 .. ROWS - 1) {
            if
            :: k >= from && k < upper && isPending(0, k) && isMoving(0) -> settles(0, k, target.live)
#if SOURCES == 2
            :: k >= from && k < upper && isPending(1, k) && isMoving(1) -> settles(1, k, target.live)
#endif
            :: else
            fi
        };
        k = 0;
        passes(UNBEGUN);
        if
        :: target.way == UNBEGUN -> complete()
        :: else
        fi;
        commit(p);
        goto end_look
       }

    :: atomic { target.phase[0] == COPIED || target.phase[0] == RETIRING -> working[p] = true; goto retire }
#if SOURCES == 2
    :: atomic { target.phase[1] == COPIED || target.phase[1] == RETIRING -> working[p] = true; s = 1; goto retire }
#endif
    fi;

#ifdef BUG_CURSOR_APART
apart:
    if
    :: atomic {
        passes(INDEXING);
        commit(p);
        goto end_look
       }
    :: atomic { killed(p) }
    fi;
#endif

adopt:
    if
    /* Adopting. Unless nobody has written since the comparison, all is compared again, and what is left comes in, in the same
       transaction. */
    :: atomic {
        isComplete && mayAdopt && isLittleLeft ->
        if
        :: compared[p]
#ifndef BUG_ADOPT_UNMERGED
        :: !compared[p] ->
            for (k : 0 .. ROWS - 1) {
#ifdef BUG_BRING_STALE
                if
                :: isUnmerged(k) ->
                    target.row[at(build, k)] = seen[k];
                    target.entry[at(build, k)] = seen[k]
                :: else
                fi
#else
                leave(k);
                comeIn(k)
#endif
            };
            k = 0
#else
        :: !compared[p]
#endif
        fi;
        target.live = build;
#ifndef BUG_NO_NUMBER
        isRaised = true;
#endif
        supersedes(0);
#if SOURCES == 2 && !defined(BUG_COMPLETE_ONE)
        supersedes(1);
#endif
        complete();
        /* The build is dropped by its name: the connection tells which b-trees that are. */
#ifdef BUG_NO_RESET
        for (k : 0 .. ROWS - 1) {
            target.row[at(target.live, k)] = NONE;
            target.entry[at(target.live, k)] = NONE
        };
        k = 0;
#endif
        commit(p);
#ifdef BUG_DROP_AT_ONCE
        dropped[0] = true;
        check();
#endif
        working[p] = false;
        goto end_look
       }
    :: atomic {
        mayMerge && isCurrent && mayMergeAgain ->
        mergesAgain();
        working[p] = false;
        goto end_look
       }
#ifdef LIVENESS
    :: atomic {
        isComplete && isCurrent && mayGiveUp ->
        clear();
        target.way = INSERTING;
        forgets(p);
        commit(p);
        working[p] = false;
        goto end_look
       }
#else
    /* The target is locked. */
    :: atomic { true -> working[p] = false; goto end_look }
#endif
    :: atomic { !(isComplete && isCurrent) -> working[p] = false; goto end_look }
    :: atomic { killed(p) }
    fi;

    /* ----- Retirement, as Model/midstream.pml has it; of each source on its own. ----- */
retire:
    if
    :: atomic { target.phase[s] == COPIED -> target.phase[s] = RETIRING; commit(p) }
    :: atomic { target.phase[s] != COPIED -> skip }
    :: atomic { killed(p) }
    fi;
#ifndef BUG_NO_SYNC
    if
    :: atomic { sync() }
    :: atomic { killed(p) }
    fi;
#endif
    if
#ifndef BUG_NO_PROOF
    :: atomic { !reading && !isOpen(s) -> skip }
    :: atomic { isOpen(s) -> goto begin }
#else
    :: atomic { !isOpen(s) -> skip }
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
    :: atomic { dropped[s] = true; check() }
    :: atomic { killed(p) }
    fi;
    if
    :: atomic { target.phase[s] == RETIRING -> target.phase[s] = DONE; commit(p); sync(); goto begin }
    :: atomic { target.phase[s] != RETIRING -> goto begin }
    :: atomic { killed(p) }
    fi
}

/* ---------------------------------------------------------------------------------------------------------------------
 * The application's write transactions, of all processes: one at a time has the target's write lock. Their connections are not the ones
 * that make steps.
 */

/* The transaction begins: the connection reads the schema again where the number is another. */
inline opens() {
    if
    :: isRaised -> isRaised = false; known = target.live
    :: else
    fi
}

inline writes(k, value) {
    target.row[at(known, k)] = value;
    target.entry[at(known, k)] = value;
    target.whole[k] = value
}

proctype Writer() {
    byte i, k;

end:
    do
    /* UPDATE, DELETE, INSERT. */
    :: atomic {
        opens();
        select(k : 0 .. ROWS - 1);
        promotes(k, known);
        if
        :: target.whole[k] != NONE -> writes(k, NEW)
        :: target.whole[k] != NONE -> writes(k, NEWER)
        :: target.whole[k] != NONE -> writes(k, NONE)
        :: target.whole[k] == NONE -> writes(k, NEW)
        fi;
        commit(WRITER);
        k = 0
       }
    /* All that is pending is needed in the application's own transaction: it comes into the live table. */
    :: atomic {
        isAnyMoving && areMoving ->
        opens();
        for (k : 0 .. ROWS - 1) { promotes(k, known) };
        complete();
        commit(WRITER);
        k = 0
       }
    od
}

#if SOURCES == 2
/* A row of the second source has the key of one that is there. */
#define meets(k) (source[of(1, k)] != NONE && (target.row[at(target.live, k)] != NONE || isPending(0, k)))
#endif

/* What a process decides from counts at any time, what its user decides, and what other programs do to the table. */
proctype Others() {
    byte i, k, s, who;

end:
    do
#ifndef LIVENESS
    :: atomic {
        isAnyMoving && target.way != INSERTING ->
        clear();
        target.way = INSERTING;
        commit(WRITER)
       }
    /* Rows of the live table return. The build is that of the first source. A process cancels by the connection that makes its steps. */
    :: atomic {
        isAnyMoving ->
        select(s : 0 .. SOURCES - 1);
        select(who : 0 .. PROCESSES);
        if
        :: isMoving(s) ->
            target.phase[s] = CANCELLED;
            if
            :: s == 0 && target.way != INSERTING -> clear(); target.way = UNBEGUN
            :: else
            fi;
            commit(who)
        :: else
        fi;
        s = 0;
        who = 0
       }
#endif
    /* CREATE INDEX, ALTER TABLE, or DROP and CREATE. */
    :: atomic {
        changes > 0 ->
        changes--;
        target.text[target.live]++;
        isRaised = true;
        commit(WRITER)
       }
#if SOURCES == 2
    /* A second source's rows begin to move: none of them has the key of one that is seen. */
    :: atomic {
        target.phase[1] == ABSENT && isMoving(0) && target.way != INSERTING && !meets(0) && !meets(ROWS - 1) ->
        select(who : 0 .. PROCESSES);
        target.phase[1] = COPYING;
        target.guard[1] = true;
        isRaised = true;
        for (k : 0 .. ROWS - 1) {
            if
            :: source[of(1, k)] != NONE -> target.whole[k] = source[of(1, k)]
            :: else
            fi
        };
        k = 0;
        commit(who);
        who = 0
       }
#endif
    od
}

/* One that has a snapshot of the target, and then reads of the sources what is pending in that. */
proctype Reader() {
    byte i;
    bool needs[SOURCES];

end:
    do
    :: atomic {
        isAnyMoving ->
        for (i : 0 .. SOURCES * ROWS - 1) {
            if
            :: isPending(i / ROWS, i % ROWS) -> needs[i / ROWS] = true
            :: else
            fi
        };
        i = 0;
        reading = true
       };
       atomic {
        for (i : 0 .. SOURCES - 1) {
            assert(!(needs[i] && dropped[i]));
            needs[i] = false
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
            copies(target, disk);
            /* Every connection is another one. */
            isRaised = false;
            known = target.live;
            compared[0] = false;
            compared[1] = false
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
            fi;
#if SOURCES == 2
            if
            :: source[of(1, i)] = OTHER
            :: skip
            fi;
#endif
#ifdef REFUSED
            if
            :: source[i] != NONE -> refused[i] = true
            :: skip
            fi
#endif
        };
        i = 0;
        target.phase[0] = COPYING;
        target.guard[0] = true;
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
ltl ends { <> [] (target.phase[0] == DONE && dropped[0]) }
#endif
