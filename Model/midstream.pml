/*
 * Midstream's protocol: one table moves from a source file to a target file while it is read and written, two processes
 * make steps, and any of them dies, or the power fails, at any moment. Docs/Model.md tells what is left out, and why it
 * may be. Scripts/check-model runs this file as it is, which must pass, and with each BUG_… below, which must fail.
 *
 * A transaction of one file is one step of the model. In SQLite it has a beginning and an end, but only one transaction
 * at a time writes a file, and one that dies has done nothing. What a transaction of the target reads of the source, it
 * reads at one moment between the two: that moment is the step.
 */

#include "common.pml"
/* The watermark when all rows have been passed: Int64.max. TableRecord.isPassed, Model/Records.swift. */
#define PASSED (ROWS + 1)
#ifdef BUG_COMPLETE_EARLY
#define isPassed (target.watermark > 0)
#else
#define isPassed (target.watermark == PASSED)
#endif

/* Model/Phase.swift. ABSENT: the target has no record of a migration; DONE: it has none any more. */
#define ABSENT 0
#define STARTING 1
#define COPYING 2
#define COPIED 3
#define RETIRING 4
#define DONE 5

/* Claims by another target on other rows of the source's table: Protocol/Claims.swift. */
#define OPEN 1
#define MOVED 2

/* The target's file. What stands here commits together: Protocol/StateStore.swift, Docs/FileFormat.md. */
typedef Target {
    byte row[ROWS];     /* main.T */
    bool ledger[ROWS];  /* midstream_ledger_… */
    byte watermark;     /* how many rows have been passed, in the order of their keys; or PASSED */
    byte phase;
    byte id;            /* of the record: Identifiers.next, never used twice */
    byte copied;
    byte settled;
    bool guard;         /* the triggers on main.T */
    byte records;       /* in midstream_tables */
    byte whole[ROWS];   /* ghost: the table as the application must see it in this state */
}

Target target;          /* as committed */
/* The last id. A beginning that is withdrawn may be made again so many times. */
byte lastID;
#ifndef MOST_IDS
#define MOST_IDS 2
#endif
#ifdef POWER
Target disk;            /* as a power loss would leave it: some commits ago */
#endif

/* The source's file. It is synchronous = EXTRA: what is committed is on the disk. */
typedef Source {
    byte row[ROWS];
    bool fence;         /* the claim and the fence, which come in one transaction */
    byte id;            /* the record that the claim is of */
    bool moved;         /* the claim says that its rows have moved */
    bool dropped;       /* the table is gone */
    byte other;         /* another target's claim */
}

Source source;
#ifdef BUG_FENCE_UNSYNCED
bool fenceOnDisk;       /* at once, or with what is written to the source next */
#endif

/* Who is in the midst of something, and would be ended by a power loss. */
bool working[PROCESSES + 1];
#define READER PROCESSES
/* A reader has a snapshot of the target from before `copied`. */
bool reading;
/* The reader's connection has the overlay, and the source attached: Overlay.install, Overlay/Overlay+Installing.swift. */
bool overlay;

/* Compatibility.checkCollisions: no row of the target has the key of one that is to come. */
#if ROWS == 1
#define noCollision (target.row[0] == NONE)
#elif ROWS == 2
#define noCollision (target.row[0] == NONE && target.row[1] == NONE)
#else
#define noCollision (target.row[0] == NONE && target.row[1] == NONE && target.row[2] == NONE)
#endif

#ifdef BUG_KEYS_UNCHECKED
#define stillNoCollision true
#else
#define stillNoCollision noCollision
#endif

/* MoveSQL.isUnsettled, isBeyond; LiveState. Only a source row can be pending. */
#ifdef BUG_TWO_FILES
#define isPending(k) (target.phase == COPYING && (k) >= target.watermark && source.row[k] != NONE)
#else
#define isPending(k) (target.phase == COPYING && (k) >= target.watermark && !target.ledger[k])
#endif

/*
 * The properties. Who begins to read now must see each row once, with its last committed value; so nothing is lost, and
 * nothing is there twice. It is asked after each change of a file.
 */
inline check() {
    d_step {
        for (i : 0 .. ROWS - 1) {
            if
            :: isPending(i) ->
                assert(target.row[i] == NONE);              /* or it would be there twice */
                assert(!source.dropped);                    /* or it would be lost */
                assert(source.row[i] == target.whole[i])
            :: else -> assert(target.row[i] == target.whole[i])
            fi
        };
        i = 0;
        assert(target.records <= 1);                        /* or no overlay could be made */
        assert(target.guard == (target.phase == COPYING));  /* or every write would be refused, or none */
        assert(target.phase != DONE || source.moved);       /* or the source would stay for ever */
        assert(!source.fence || target.phase != ABSENT && target.id == source.id);  /* or it would seem restored */
#ifndef BUG_FENCE_LATE
        assert(target.phase != COPYING || source.fence);    /* or others would write the source, or take it */
#endif
        assert(!source.dropped || source.moved && source.other != OPEN)     /* or others would lose theirs */
    }
}

inline sync() {
#ifdef POWER
    d_step {
        for (i : 0 .. ROWS - 1) {
            disk.row[i] = target.row[i];
            disk.ledger[i] = target.ledger[i];
            disk.whole[i] = target.whole[i]
        };
        i = 0;
        disk.watermark = target.watermark;
        disk.phase = target.phase;
        disk.id = target.id;
        disk.copied = target.copied;
        disk.settled = target.settled;
        disk.guard = target.guard;
        disk.records = target.records
    }
#else
    skip
#endif
}

/* The end of each transaction of the target. With synchronous = NORMAL it may come to the disk at once, or later. */
inline commit() {
    check();
#ifdef POWER
    if
    :: sync()
    :: skip
    fi
#endif
}

#ifdef BUG_BEGIN_UNCHECKED
#define stillAbsent true
#elif defined(BUG_BEGIN_BY_RECORDS)
/* The record of a move that has ended is gone, as that of one that has not begun. */
#define stillAbsent (target.phase == ABSENT || target.phase == DONE)
#else
#define stillAbsent (target.phase == ABSENT)
#endif
#ifdef BUG_RESUME_UNCHECKED
/* CREATE TRIGGER fails where the trigger is, and UPDATE midstream_tables where that is gone. */
#define stillStarting (!target.guard && target.phase != DONE)
#else
#define stillStarting (target.phase == STARTING && target.id == id)
#endif
#ifdef BUG_FENCE_LATE
#define isClaimed true
#else
#define isClaimed (source.fence && source.id == id)
#endif
#ifdef BUG_NO_RESUME
#define resumes false
#else
#define resumes true
#endif

/* RowMover.complete: the source has been counted by other means than the watermark's. */
inline complete(rows) {
#ifndef BUG_COMPLETE_EARLY
    assert(rows == target.copied + target.settled);         /* or it is the error sourceChanged */
#endif
    target.watermark = PASSED;
    target.phase = COPIED;
    target.guard = false
}

/* Retirement.finishInTransaction. With the record its counters go. */
inline finish() {
    target.phase = DONE;
    target.copied = 0;
    target.settled = 0
}

inline drop() {
    d_step {
        source.dropped = true;
        for (i : 0 .. ROWS - 1) { source.row[i] = NONE };
        i = 0
    }
}

#ifdef BUG_CLAIMS_IGNORED
#define mayDrop true
#else
#define mayDrop (source.other != OPEN)
#endif

/* Claims.release, Retirement/Claims+Release.swift: one transaction of the source. The table may have been dropped before. A copy of
   the target has another path than the claim names, and gets no further. */
inline release() {
    source.moved = true;
#ifdef BUG_FENCE_UNSYNCED
    fenceOnDisk = true;
#endif
    if
    :: mayDrop -> drop()
    :: else
    fi
}

/* ---------------------------------------------------------------------------------------------------------------------
 * A process that opens the target, begins the migration, or goes on with it: Stepper/. Migration/MigrationEngine.swift
 * runs Setup.resume when the file is opened, and Stepper.step from then on.
 */
proctype Process(byte p) {
    byte i, k, upper, from, counted, id;

begin:
    atomic {
        working[p] = false;
        upper = 0;
        from = 0;
        counted = 0;
        id = 0
    };

    /* StateStore.load, in a snapshot of its own. What it says may be old by the next step. */
end_look:
    if
    :: atomic { target.phase == ABSENT -> working[p] = true }; goto add
    :: atomic { target.phase == STARTING && resumes -> working[p] = true; id = target.id }; goto stake
    :: atomic { target.phase == COPYING && !isPassed -> working[p] = true; from = target.watermark }; goto move
    :: atomic { target.phase == COPYING && isPassed -> working[p] = true }; goto count
    :: atomic { target.phase == COPIED -> working[p] = true }; goto retire
    :: atomic { target.phase == RETIRING -> working[p] = true }; goto prove
    fi;

    /* ----- Setup.begin, Setup/Setup.swift ----- */
add:
    /* Setup.check: whether the source has a claim of this target that the target does not know, and Compatibility. */
    if
    :: atomic { source.fence -> assert(target.phase != ABSENT); goto begin }
    :: atomic { !source.fence && noCollision -> skip }
    :: atomic { !source.fence && !noCollision -> goto begin }
    :: atomic { killed(p) }
    fi;
    if
    :: atomic {
        stillAbsent && lastID < MOST_IDS ->
        target.phase = (target.phase == ABSENT -> STARTING : target.phase);
        target.records++;
        lastID++;
        id = lastID;
        target.id = id;
        commit()
       }
    :: atomic { !stillAbsent || lastID == MOST_IDS -> goto begin }
    :: atomic { killed(p) }
    fi;
    if
    :: atomic { sync() }
    :: atomic { killed(p) }
    fi;

    /* ----- Setup.resume, of a table that is `starting` ----- */
stake:
#ifndef BUG_STARTING_UNSYNCED
    /* Who recorded `starting` may have died before he could sync it, or may be about to. */
    if
    :: atomic { sync() }
    :: atomic { killed(p) }
    fi;
#endif
    /* Claims.stake, in a transaction of the source, which is synced, with the target's lock held: Stepper.writeSource. */
    if
    :: atomic {
        stillStarting ->
#ifndef BUG_FENCE_LATE
        source.fence = true;
        source.id = id;
#endif
#ifdef BUG_FENCE_UNSYNCED
        if
        :: fenceOnDisk = true
        :: skip
        fi;
#endif
        check()
       }
    :: atomic { !stillStarting -> goto begin }
    :: atomic { killed(p) }
    fi;
    if
    :: atomic {
        stillStarting && isClaimed && stillNoCollision ->
        for (i : 0 .. ROWS - 1) {
            if
            :: target.phase == STARTING && target.row[i] == NONE -> target.whole[i] = source.row[i]
            :: else
            fi
        };
        i = 0;
        target.phase = COPYING;
        target.guard = true;
        commit()
       }
    :: atomic { !stillStarting || !isClaimed -> goto begin }
    :: atomic { stillStarting && isClaimed && !stillNoCollision -> goto withdraw }
    :: atomic { killed(p) }
    fi;
#ifdef BUG_FENCE_LATE
    atomic { source.fence = true; source.id = id; check() };
#endif
    if
    :: atomic { sync(); goto begin }
    :: atomic { killed(p) }
    fi;

    /* ----- Setup.withdraw: the claim goes first, and the target forgets it last. Another process may be at the same. ----- */
withdraw:
    if
#ifdef BUG_WITHDRAW_UNCHECKED
    :: atomic { true -> source.fence = false; check() }
#else
    :: atomic {
        stillStarting ->
        source.fence = false;
#ifdef BUG_FENCE_UNSYNCED
        fenceOnDisk = false;
#endif
        check()
       }
    :: atomic { !stillStarting -> goto begin }
#endif
    :: atomic { killed(p) }
    fi;
    if
#ifdef BUG_FORGET_UNCHECKED
    :: atomic { stillStarting -> target.phase = ABSENT; target.records--; commit(); goto begin }
    :: atomic { !stillStarting -> goto begin }
#else
    :: atomic {
        stillStarting && !isClaimed ->
        target.phase = ABSENT;
        target.records--;
        commit();
        goto begin
       }
    :: atomic { !stillStarting || isClaimed -> goto begin }
#endif
    :: atomic { killed(p) }
    fi;

    /* ----- Copying.move and RowMover.move ----- */
move:
    if
    :: atomic {
        target.phase == COPYING && !isPassed ->
#ifndef BUG_WATERMARK_OUTSIDE
        from = target.watermark;
#endif
        /* RowMover.key(at:): the batch's last row, or none when it is to be the last batch. */
        if
        :: from + 1 <= ROWS -> select(upper : from + 1 .. ROWS)
        :: upper = PASSED
        fi;
        for (k : 0 .. ROWS - 1) {
            if
            :: k >= from && k < upper ->
                if
#ifdef BUG_LEDGER_IGNORED
                :: true ->
#else
                :: !target.ledger[k] ->
#endif
                    /* MoveSQL.copyRange */
                    target.row[k] = source.row[k];
                    target.copied++
                :: else ->
                    /* MoveSQL.forgetSettled */
                    target.ledger[k] = false;
                    target.settled++
                fi
            :: else
            fi
        };
        k = 0;
#ifdef BUG_WATERMARK_APART
        commit()
       }
    :: atomic { killed(p) }
    fi;
    if
    :: atomic {
        true ->
#endif
        /* TableUpdate.advance */
        target.watermark = upper;
        upper = 0;
        from = 0;
        commit();
        goto begin
       }
    :: atomic { !(target.phase == COPYING && !isPassed) -> goto begin }
    :: atomic { killed(p) }
    fi;

    /* ----- Copying.countReadable, then RowMover.complete ----- */
count:
    if
    :: atomic { counted = (source.dropped -> 0 : ROWS) }
    :: atomic { killed(p) }
    fi;
    if
    :: atomic {
        target.phase == COPYING && isPassed ->
        complete(counted);
        commit();
#ifdef BUG_DROP_AT_COMPLETION
        release();
        check();
#endif
        goto begin
       }
    :: atomic { !(target.phase == COPYING && isPassed) -> goto begin }
    :: atomic { killed(p) }
    fi;

    /* ----- Retirement.advance, Retirement/Retirement.swift ----- */
retire:
    /* beginRetiring */
    if
    :: atomic { target.phase == COPIED -> target.phase = RETIRING; commit() }
    :: atomic { target.phase != COPIED -> skip }
    :: atomic { killed(p) }
    fi;
#if !defined(BUG_NO_SYNC) && !defined(ONE_SYNC)
    if
    :: atomic { sync() }
    :: atomic { killed(p) }
    fi;
#endif
prove:
    /* isProvenUnread. That the checkpoint proves it is what Model/checkpoint.pml is about. It is not taken to sync
       anything: another connection's may have done the work before, with synchronous = OFF. */
    if
#ifndef BUG_NO_PROOF
    :: atomic { !reading -> skip }
#else
    :: atomic { true -> skip }
#endif
    :: atomic { killed(p) }
    fi;
#if !defined(BUG_NO_SYNC) && !defined(BUG_NO_SECOND_SYNC)
    if
    :: atomic { sync() }
    :: atomic { killed(p) }
    fi;
#endif
#ifndef BUG_DONE_FIRST
    /* releaseSource: Claims.release, one transaction of the source. */
    if
    :: atomic { true -> release(); check() }
    :: atomic { killed(p) }
    fi;
#endif
    /* finishInTransaction. Another process may have done so. */
    if
    :: atomic { target.phase == RETIRING -> finish(); commit() }
    :: atomic { target.phase != RETIRING -> skip }
    :: atomic { killed(p) }
    fi;
#ifdef BUG_DONE_FIRST
    if
    :: atomic { true -> release(); check() }
    :: atomic { killed(p) }
    fi;
#endif
    if
    :: atomic { sync(); goto begin }
    :: atomic { killed(p) }
    fi
}

/* ---------------------------------------------------------------------------------------------------------------------
 * The application's write transactions, of all processes: one at a time has the target's write lock, and whose it is
 * makes no difference. It looks at the schema version when it has the lock: DatabaseAccess.beginBlock, run.
 */

/* MovingTable.promote, MovingTable/MovingTable+Promotion.swift: in the application's own transaction. */
inline promote(k) {
    if
    :: isPending(k) ->
        target.row[k] = source.row[k];
#ifdef BUG_LEDGER_APART
        commit();
#endif
        target.ledger[k] = true
    :: else
    fi
}

#ifdef BUG_NO_GUARD
#define mayWriteForeign true
#else
#define mayWriteForeign (!target.guard)
#endif
/* A row that gets a key of the source's before the table moves keeps it from moving: that is an error, and no end. */
#ifdef LIVENESS
#define mayInsert (target.phase >= COPYING)
#else
#define mayInsert true
#endif

proctype Writer() {
    byte i, k;
#ifdef BUG_STALE_WRITER
    bool known;
#define reaches(k) if :: known -> promote(k) :: else fi
#else
#define reaches(k) promote(k)
#endif

end:
    do
    /* UPDATE: Router, then DatabaseAccess.promote. */
    :: atomic {
        select(k : 0 .. ROWS - 1);
#if defined(BUG_TWO_FILES)
        if
        :: isPending(k) ->
            target.row[k] = NEW;
            target.whole[k] = NEW;
#ifndef IN_ONE_MOMENT
            commit();                                       /* SQLite commits one file after the other */
#endif
            source.row[k] = NONE
        :: else ->
#endif
        reaches(k);
        if
        :: target.row[k] != NONE -> target.row[k] = NEW
        :: else
        fi;
        if
        :: target.whole[k] != NONE -> target.whole[k] = NEW
        :: else
        fi;
#if defined(BUG_TWO_FILES)
        fi;
#endif
        commit();
        k = 0
       }
#ifndef BUG_TWO_FILES
    /* DELETE, which promotes; or MovingTable.discard, with the same outcome. */
    :: atomic {
        select(k : 0 .. ROWS - 1);
        reaches(k);
        target.row[k] = NONE;
        target.whole[k] = NONE;
        commit();
        k = 0
       }
    /* INSERT: the guard trigger asks for pending rows of the same key, MovingTable.resolveConflicts. */
    :: atomic {
        mayInsert ->
        select(k : 0 .. ROWS - 1);
#ifndef BUG_NO_CONFLICT
        reaches(k);
#endif
        if
        :: target.row[k] == NONE -> target.row[k] = NEW
        :: else                                             /* refused: UNIQUE constraint failed */
        fi;
        if
        :: target.whole[k] == NONE -> target.whole[k] = NEW
        :: else
        fi;
        commit();
        k = 0
       }
    /* INSERT by a program without Midstream, which has no function for the guard trigger to call: MoveSQL.triggers. */
    :: atomic {
        mayWriteForeign && mayInsert ->
        select(k : 0 .. ROWS - 1);
        if
        :: target.row[k] == NONE -> target.row[k] = NEW; target.whole[k] = NEW
        :: else
        fi;
        commit();
        k = 0
       }
    /* DatabaseAccess.drain: all that is left, in the application's own transaction. */
    :: atomic {
        target.phase == COPYING ->
        for (k : 0 .. ROWS - 1) {
            if
            :: isPending(k) -> target.row[k] = source.row[k]; target.copied++
            :: target.ledger[k] -> target.ledger[k] = false; target.settled++
            :: else
            fi
        };
        complete(ROWS);
        commit();
        k = 0
       }
#endif
#ifdef BUG_STALE_WRITER
    :: atomic { known = (target.phase == COPYING) }
#endif
    od
}

/* ---------------------------------------------------------------------------------------------------------------------
 * A reader. One stands for all: what one sees depends on no other, and the proof waits for each.
 */
#ifdef BUG_STALE_OVERLAY
#define isCurrent true
#else
#define isCurrent overlay
#endif
#ifdef BUG_SOURCE_FIRST
#define isAttached true
#else
#define isAttached overlay
#endif

proctype Reader() {
    byte i;
    byte expected[ROWS];
    bool moving;

end:
    do
#if defined(SOURCE_FIRST) || defined(BUG_SOURCE_FIRST)
    /* The other way round: a snapshot of the source, if it is attached, and then one of the target. */
    :: atomic {
        isAttached && !source.dropped ->
        working[READER] = true;
        for (i : 0 .. ROWS - 1) { expected[i] = source.row[i] };
        i = 0
       };
       atomic {
        for (i : 0 .. ROWS - 1) {
            assert(!isPending(i) || expected[i] == target.whole[i]);
            expected[i] = NONE
        };
        i = 0;
        working[READER] = false
       }
#else
    /* A snapshot of the target, with its schema version: DatabaseAccess.beginBlock, Overlay.isCurrent. Then one of the
       source, with the first row that is read there: UnionCursor.scan. */
    :: atomic {
        target.phase == COPYING && isCurrent ->
        for (i : 0 .. ROWS - 1) {
            if
            :: isPending(i) ->
                assert(overlay || target.row[i] == target.whole[i]);    /* without, it reads main.T alone */
                expected[i] = target.whole[i]
            :: else
            fi
        };
        i = 0;
        reading = true
       };
       atomic {
        for (i : 0 .. ROWS - 1) {
            assert(expected[i] == NONE || !source.dropped && source.row[i] == expected[i]);
            expected[i] = NONE
        };
        i = 0;
        reading = false
       }
#endif
    /* The schema version is another: ROLLBACK, and Overlay.refresh. What is to be attached is read of the target, and
       then the source's schema is read. */
    :: atomic { (target.phase == COPYING) != overlay -> working[READER] = true; moving = (target.phase == COPYING) };
       atomic {
        if
        :: moving && source.dropped ->
            assert(target.phase != COPYING)                 /* or the table could not be read any more */
        :: else -> overlay = moving
        fi;
        moving = false;
        working[READER] = false
       }
    od
}

/* Another target that takes other rows of the same source table, and an old build that writes it until it is fenced. */
proctype Others() {
    byte i, k;

end:
    do
    :: atomic { source.other == NONE && !source.dropped -> source.other = OPEN }
    :: atomic {
        source.other == OPEN ->
        source.other = MOVED;
        if
        :: source.moved -> drop()
        :: else
        fi;
        check()
       }
    :: atomic {
        !source.fence && !source.dropped ->
        select(k : 0 .. ROWS - 1);
        source.row[k] = NEW;
        check();
        k = 0
       }
#ifdef BUG_COPY_RELEASES
    /* A copy of the target, which goes on by itself. */
    :: atomic { source.fence -> release(); check() }
#endif
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
        mayFail && !reading && !working[0] && !working[1] && !working[READER] ->
        fails;
        d_step {
            for (i : 0 .. ROWS - 1) {
                target.row[i] = disk.row[i];
                target.ledger[i] = disk.ledger[i];
                target.whole[i] = disk.whole[i]
            };
            i = 0;
            target.watermark = disk.watermark;
            target.phase = disk.phase;
            target.id = disk.id;
            target.copied = disk.copied;
            target.settled = disk.settled;
            target.guard = disk.guard;
            target.records = disk.records;
            overlay = false
        };
#ifdef BUG_FENCE_UNSYNCED
        source.fence = source.fence && fenceOnDisk;
#endif
        check()
       }
    od
}
#endif

init {
    byte i;
    atomic {
        for (i : 0 .. ROWS - 1) { source.row[i] = OLD };
        i = 0;
        run Process(0);
        run Process(1);
        run Writer();
        run Reader();
        run Others();
#ifdef POWER
        run Power()
#endif
    }
}

/* Under weak fairness: what can always go on does so some time. */
#ifdef LIVENESS
ltl ends { <> [] (target.phase == DONE && source.moved) }
#endif
