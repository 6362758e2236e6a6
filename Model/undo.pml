/*
 * Midstream's protocol of undoing: the rows of a table that is half moved return to their source while it is read and
 * written, two processes make steps, and any of them dies, or the power fails, at any moment. Return/Undo.swift.
 * Docs/Model.md tells what is left out, and why it may be. Scripts/check-model runs this file as it is, which must pass,
 * and with each BUG_… below, which must fail.
 *
 * A transaction of one file is one step, as in midstream.pml. One that locks the target and writes the source is one step
 * as well: the target's lock keeps the other process out, and nothing of the target is written in it.
 */

#include "common.pml"

/* Written twice since. */
#define NEWER 3
/* A reader does not ask the source for it. */
#define UNASKED 4

/* Model/Phase.swift. GONE: the target has no record of the table any more. */
#define COPYING 2
#define COPIED 3
#define GONE 5

/* The last stage. The number of one is never used again; so that there is an end, writes end with the stage before it. */
#ifndef STAGES
#define STAGES 5
#endif
#define mayWrite (target.phase == COPYING && target.stage + 1 < STAGES)

/* The target's file. What stands here commits together. */
typedef Target {
    byte row[ROWS];         /* main.T */
    bool ledger[ROWS];      /* midstream_ledger_… */
    bool returning[ROWS];   /* midstream_returning_…: the keys of this stage */
    byte watermark;         /* how many rows have been passed, in the order of their keys */
    byte phase;
    byte stage;             /* undo_stage: even while keys are collected, odd while rows return */
    byte whole[ROWS];       /* ghost: the table as the application must see it in this state */
}

Target target;              /* as committed */
#ifdef POWER
Target disk;                /* as a power loss would leave it: some commits ago */
#endif

/* The source's file. It is synchronous = EXTRA: what is committed is on the disk. */
typedef Source {
    byte row[ROWS];
    bool open;              /* the fence is down, and the claim withdrawn */
}

Source source;
#if defined(POWER) && defined(BUG_SOURCE_UNSYNCED)
Source sourceDisk;
#endif

/* Who is in the midst of something, and would be ended by a power loss. */
bool working[PROCESSES];
/* A reader has a snapshot of the target from that stage, while rows returned. */
bool reading;
byte readStage;
/* Ghost: somebody has written since the process copied a row, by what PRAGMA data_version of each file tells. */
bool changed[PROCESSES];

/* MoveSQL.isUnsettled, isBeyond. What the source has of such a key is read there. */
#define isAsked(k) (target.phase == COPYING && (k) >= target.watermark && !target.ledger[k])
#define isPending(k) (isAsked(k) && source.row[k] != NONE)

/*
 * The properties. Who begins to read now must see each row once, with its last committed value. It is asked after each
 * change of a file.
 */
inline check() {
    d_step {
        for (i : 0 .. ROWS - 1) {
            if
            :: isPending(i) ->
                assert(target.row[i] == NONE);              /* or it would be there twice */
                assert(source.row[i] == target.whole[i])
            :: target.phase == COPYING && !isPending(i) -> assert(target.row[i] == target.whole[i])
            :: else ->
                assert(target.row[i] == NONE);
                assert(source.open || source.row[i] == target.whole[i])     /* or it would be lost */
            fi
        };
        i = 0;
        assert(!source.open || target.phase != COPYING);    /* or others would write what is read as the table's */
        assert(source.open || target.phase != GONE)         /* or it could never be written again */
    }
}

inline sync() {
#ifdef POWER
    d_step {
        for (i : 0 .. ROWS - 1) {
            disk.row[i] = target.row[i];
            disk.ledger[i] = target.ledger[i];
            disk.returning[i] = target.returning[i];
            disk.whole[i] = target.whole[i]
        };
        i = 0;
        disk.watermark = target.watermark;
        disk.phase = target.phase;
        disk.stage = target.stage
    }
#else
    skip
#endif
}

/* The end of each transaction of the target. With synchronous = NORMAL it may come to the disk at once, or later. */
inline commit() {
    check();
    changed[0] = true;
    changed[1] = true;
#ifdef POWER
    if
    :: sync()
    :: skip
    fi
#endif
}

/* The end of one that writes the source. It changes no row that the target does not hide. */
inline commitSource() {
    check();
#ifndef BUG_SOURCE_VERSION
    changed[0] = true;
    changed[1] = true;
#endif
#if defined(POWER) && defined(BUG_SOURCE_UNSYNCED)
    if
    :: d_step { for (i : 0 .. ROWS - 1) { sourceDisk.row[i] = source.row[i] }; i = 0 }
    :: skip
    fi
#endif
}

#ifdef BUG_STAGE_UNCHECKED
#define isStage(s) (target.phase == COPYING)
#else
#define isStage(s) (target.phase == COPYING && target.stage == (s))
#endif

/* Undo.isProvenUnread. That a checkpoint proves it is what Model/checkpoint.pml is about. */
#ifdef BUG_NO_PROOF
#define isStageUnread(s) true
#else
#define isStageUnread(s) (!reading || readStage >= (s))
#endif
#ifdef BUG_END_UNPROVEN
#define isEndUnread true
#else
#define isEndUnread (!reading)
#endif

/* The keys whose rows are brought back. */
#if defined(BUG_LEDGER_RETURNS)
#define returns(k) target.ledger[k]
#elif defined(BUG_ALL_RETURN)
#define returns(k) (target.returning[k] || !target.ledger[k])
#else
#define returns(k) target.returning[k]
#endif

#if ROWS == 1
#define isEmpty (target.row[0] == NONE && !target.ledger[0])
#elif ROWS == 2
#define isEmpty (target.row[0] == NONE && !target.ledger[0] && target.row[1] == NONE && !target.ledger[1])
#endif

/* ---------------------------------------------------------------------------------------------------------------------
 * A process that steps: Stepper.bringBack, Undo.advance. Which keys are a batch, and in which order the walks of a stage
 * come, makes no difference to what is right, so any key comes at any time.
 */
proctype Process(byte p) {
    byte i, k, stage, mine;
    bool isUnread;

begin:
    atomic {
        working[p] = false;
        isUnread = false;
        mine = ROWS;
        k = 0
    };

    /* StateStore.table. What it says may be old by the next step. */
end_look:
    if
    :: atomic { target.phase == COPYING -> working[p] = true; stage = target.stage }
    :: atomic { target.phase == COPIED -> working[p] = true; stage = 0 }; goto release
    fi;
    if
    :: stage % 2 == 0 -> goto collect
    :: else -> goto bringBack
    fi;

    /* ----- Undo.collect ----- */
collect:
    if
    /* lowerWatermark: the keys of both sides. */
    :: atomic {
        isStage(stage) && target.watermark > 0 ->
        k = target.watermark - 1;
        if
#ifdef BUG_DELETED_RETURN
        :: target.row[k] != NONE -> target.ledger[k] = true
#elif defined(BUG_WATERMARK_ALONE)
        :: false
#else
        :: target.row[k] != NONE || source.row[k] != NONE -> target.ledger[k] = true
#endif
        :: else
        fi;
        target.watermark = k;
        commit();
        goto begin
       }
    /* UndoSQL.settle: a row that was written without a pending one of its key. */
    :: atomic {
        isStage(stage) ->
        select(k : 0 .. ROWS - 1);
        if
        :: target.row[k] != NONE && k >= target.watermark -> target.ledger[k] = true
        :: else
        fi;
        commit();
        goto begin
       }
    /* UndoSQL.collect */
    :: atomic {
        isStage(stage) ->
        select(k : 0 .. ROWS - 1);
        target.returning[k] = target.returning[k] || target.ledger[k];
        commit();
        goto begin
       }
    :: atomic { isStage(stage) && target.stage < STAGES -> target.stage++; commit(); goto begin }
    :: atomic { !isStage(stage) -> goto begin }
    :: atomic { killed(p) }
    fi;

    /* ----- Undo.bringBack. From the proof on, a process goes on with its stage. ----- */
bringBack:
    if
    :: isUnread
    :: atomic { !isUnread && isStageUnread(stage) -> skip }
    :: atomic { target.stage != stage || target.phase != COPYING -> goto begin }
    :: atomic { killed(p) }
    fi;
#ifndef BUG_NO_SYNC
    if
    :: isUnread
    :: atomic { !isUnread -> sync() }
    :: atomic { killed(p) }
    fi;
#endif
    isUnread = true;
    if
    /* UndoSQL.clear: target locked, source written. */
    :: atomic {
        isStage(stage) ->
        select(k : 0 .. ROWS - 1);
        if
        :: returns(k) && source.row[k] != NONE -> source.row[k] = NONE; commitSource()
        :: else
        fi;
        k = 0;
        goto bringBack
       }
    /* UndoSQL.copy: target locked, source written. A key that is there is an error, and not replaced. */
    :: atomic {
        isStage(stage) ->
        select(k : 0 .. ROWS - 1);
        mine = ROWS;
        if
        :: returns(k) && source.row[k] == NONE && target.row[k] != NONE ->
            source.row[k] = target.row[k];
            commitSource();
            mine = k;
            changed[p] = false
        :: else
        fi;
        k = 0;
        goto bringBack
       }
    /* Undo.settle */
    :: atomic {
        isStage(stage) ->
        select(k : 0 .. ROWS - 1);
        if
        :: target.returning[k] ->
            /* Undo.firstLeft, or it is told that the source does not keep what was written: MigrationError notVerified. */
            assert(mine != k || changed[p] || source.row[k] == target.row[k]);
            if
#ifdef BUG_UNCOMPARED
            :: source.row[k] != NONE ->
#else
            :: source.row[k] == target.row[k] ->
#endif
                target.row[k] = NONE;
                target.ledger[k] = false;
                target.returning[k] = false
            :: else
            fi
        :: else
        fi;
        commit();
        mine = ROWS;
        k = 0;
        goto bringBack
       }
    /* The next stage, or Undo.end. */
    :: atomic {
        isStage(stage) ->
        if
#ifdef BUG_END_EARLY
        :: target.watermark == 0 ->
#else
        :: target.watermark == 0 && isEmpty ->
#endif
            target.phase = COPIED;
            target.stage = 0;
            for (k : 0 .. ROWS - 1) { target.returning[k] = false }
        :: else -> target.stage = (target.stage < STAGES -> target.stage + 1 : target.stage)
        fi;
        k = 0;
        commit();
        goto begin
       }
    :: atomic { !isStage(stage) -> goto begin }
    :: atomic { killed(p) }
    fi;

    /* ----- Undo.release ----- */
release:
    if
    :: atomic { isEndUnread || target.phase != COPIED -> skip }
    :: atomic { killed(p) }
    fi;
#ifndef BUG_FENCE_FIRST
    if
    :: atomic { sync() }
    :: atomic { killed(p) }
    fi;
#endif
    /* Undo.open, in a transaction of the source. */
    if
    :: atomic { true -> source.open = true; check() }
    :: atomic { killed(p) }
    fi;
    if
    :: atomic { target.phase == COPIED -> target.phase = GONE; commit(); goto begin }
    :: atomic { target.phase != COPIED -> goto begin }
    :: atomic { killed(p) }
    fi
}

/* ---------------------------------------------------------------------------------------------------------------------
 * The application's write transactions, as in midstream.pml.
 */
inline promote(k) {
    if
    :: isPending(k) -> target.row[k] = source.row[k]; target.ledger[k] = true
    :: else
    fi
}

#define written(value) (value == NEW -> NEWER : NEW)

proctype Writer() {
    byte i, k;

end:
    do
    /* UPDATE, or DELETE, which promotes as well. */
    :: atomic {
        mayWrite ->
        select(k : 0 .. ROWS - 1);
        promote(k);
        if
        :: target.row[k] != NONE -> target.row[k] = written(target.row[k])
        :: target.row[k] = NONE
        fi;
        target.whole[k] = target.row[k];
        commit();
        k = 0
       }
    /* INSERT, or REPLACE. */
    :: atomic {
        mayWrite ->
        select(k : 0 .. ROWS - 1);
        promote(k);
        target.row[k] = written(target.row[k]);
        target.whole[k] = target.row[k];
        commit();
        k = 0
       }
    od
}

/* ---------------------------------------------------------------------------------------------------------------------
 * A reader. One stands for all: what one sees depends on no other, and the proof waits for each.
 */
proctype Reader() {
    byte i;
    byte expected[ROWS];

end:
    do
    /* A snapshot of the target, and then one of the source, with the first row that is read there: UnionCursor.scan. */
    :: atomic {
        target.phase == COPYING ->
        for (i : 0 .. ROWS - 1) {
            expected[i] = (isAsked(i) -> source.row[i] : UNASKED)
        };
        i = 0;
        reading = true;
        readStage = target.stage
       };
       atomic {
        for (i : 0 .. ROWS - 1) {
            assert(expected[i] == UNASKED || source.row[i] == expected[i]);
            expected[i] = NONE
        };
        i = 0;
        reading = false;
        readStage = 0
       }
    od
}

#ifdef BUG_MOVE_UNCHECKED
/* A process that read of the table before it was cancelled, and moves a batch: Copying.move. */
proctype Late() {
    byte i, k;

end:
    atomic {
        target.phase == COPYING && target.watermark < ROWS ->
        k = target.watermark;
        if
        :: isPending(k) -> target.row[k] = source.row[k]
        :: else
        fi;
        target.ledger[k] = false;
        target.watermark = k + 1;
        commit()
    }
}
#endif

/* Programs without Midstream, which write the source as soon as its fence is down. */
proctype Others() {
    byte k;

end:
    do
    :: atomic {
        source.open ->
        select(k : 0 .. ROWS - 1);
        source.row[k] = written(source.row[k]);
        k = 0
       }
    od
}

#ifdef POWER
/*
 * The power fails: the target's last commits are lost, the source's are not. It is enough that this happens while
 * nobody is in the midst of something, since whoever is may die before.
 */
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
                target.ledger[i] = disk.ledger[i];
                target.returning[i] = disk.returning[i];
                target.whole[i] = disk.whole[i];
#ifdef BUG_SOURCE_UNSYNCED
                source.row[i] = sourceDisk.row[i]
#endif
            };
            i = 0;
            target.watermark = disk.watermark;
            target.phase = disk.phase;
            target.stage = disk.stage
        };
        check()
       }
    od
}
#endif

/* A table that is half moved, in all ways: Model/midstream.pml comes to each of them. */
init {
    byte i;
    atomic {
        select(i : 0 .. ROWS);
        target.watermark = i;
        for (i : 0 .. ROWS - 1) {
            if
            :: source.row[i] = OLD
            :: source.row[i] = NONE
            fi;
            if
            :: i < target.watermark || source.row[i] == NONE ->
                if
                :: target.row[i] = NONE
                :: target.row[i] = source.row[i]
                :: target.row[i] = NEW
                fi;
                target.whole[i] = target.row[i]
            :: i >= target.watermark ->
                target.ledger[i] = true;
                if
                :: target.row[i] = NONE
                :: target.row[i] = NEW
                fi;
                target.whole[i] = target.row[i]
            :: i >= target.watermark && source.row[i] != NONE -> target.whole[i] = source.row[i]
            fi
        };
        i = 0;
        target.phase = COPYING;
        check();
        sync();
#if defined(POWER) && defined(BUG_SOURCE_UNSYNCED)
        for (i : 0 .. ROWS - 1) { sourceDisk.row[i] = source.row[i] };
        i = 0;
#endif
        run Process(0);
        run Process(1);
        run Writer();
        run Reader();
        run Others();
#ifdef BUG_MOVE_UNCHECKED
        run Late();
#endif
#ifdef POWER
        run Power()
#endif
    }
}
