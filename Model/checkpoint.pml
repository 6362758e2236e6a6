/*
 * What Stepper.isProvenUnread rests on: which snapshots a passive checkpoint lets one tell the absence of.
 * Model/midstream.pml takes it for granted; here is SQLite's WAL index, with the locks by which readers, a writer and
 * checkpointers keep out of each other's way. Docs/Model.md tells what is left out.
 *
 * Source: <https://www.sqlite.org/walformat.html>, section 2.3.
 */

#ifndef FRAMES
#define FRAMES 3        /* how long the WAL may become; each commit is one frame */
#endif
#ifndef READERS
#define READERS 2
#endif
#define UNUSED 255

/* The WAL index. */
byte frames;                    /* mxFrame */
byte backfilled;                /* nBackfill: so many frames have been copied into the file */
bool checkpointing;             /* WAL_CKPT_LOCK */
bool excludesZero;              /* WAL_READ_LOCK(0), exclusive */
byte mark[READERS] = UNUSED;    /* aReadMark. Here each reader has one of its own */
bool locksMark[READERS];        /* WAL_READ_LOCK(1) and so on, shared */
bool locksZero[READERS];        /* WAL_READ_LOCK(0), shared: who has it reads the file alone */

bool isCopied;                  /* phase `copied` is committed */
bool isProven;

/* Ghosts: who reads, in a snapshot from before `copied`; and who begins to, and whether the index's header has changed
   since he read it. */
bool reads[READERS];
bool isOld[READERS];
bool isStale[READERS];
bool begins[READERS];

#if READERS == 1
#define zeroIsLocked locksZero[0]
#define aMarkIsLocked locksMark[0]
#define somebodyReadsOld (reads[0] && isOld[0])
#elif READERS == 2
#define zeroIsLocked (locksZero[0] || locksZero[1])
#define aMarkIsLocked (locksMark[0] || locksMark[1])
#define somebodyReadsOld (reads[0] && isOld[0] || reads[1] && isOld[1])
#else
#define zeroIsLocked (locksZero[0] || locksZero[1] || locksZero[2])
#define aMarkIsLocked (locksMark[0] || locksMark[1] || locksMark[2])
#define somebodyReadsOld (reads[0] && isOld[0] || reads[1] && isOld[1] || reads[2] && isOld[2])
#endif

/* How much is written, and how often others copy the WAL, so that they do not keep the stepper from it for ever. */
#ifdef LIVENESS
byte commits = 4;
byte helpings = 2;
#define mayWrite (commits > 0)
#define writes commits--
#define mayHelp (helpings > 0)
#define helps helpings--
#else
#define mayWrite true
#define writes skip
#define mayHelp true
#define helps skip
#endif

inline headerChanges() {
    for (i : 0 .. READERS - 1) { isStale[i] = begins[i] };
    i = 0
}

/* walRestartLog, then a commit. Some commit is the one of `copied`. */
proctype Writer() {
    byte i;

end:
    do
    :: atomic {
        /* walRestartHdr */
        frames > 0 && backfilled == frames && !aMarkIsLocked ->
        frames = 0;
        backfilled = 0;
        for (i : 0 .. READERS - 1) { mark[i] = UNUSED };
        headerChanges()
       }
    :: atomic {
        frames < FRAMES && mayWrite ->
        writes;
        frames++;
        headerChanges();
        if
        :: isCopied = true
        :: skip
        fi
       }
    od
}

/* A mark that nobody locks keeps nobody from anything. */
inline leave(r) {
    reads[r] = false;
    isOld[r] = false;
    locksMark[r] = false;
    locksZero[r] = false;
    mark[r] = UNUSED
}

/* walTryBeginRead, and the end of the transaction. */
proctype Reader(byte r) {
    byte top;
    bool old;

end:
    do
    :: atomic { begins[r] = true; top = frames; old = !isCopied };
        if
        :: atomic { backfilled == top && !excludesZero -> locksZero[r] = true }
        :: atomic { backfilled != top || excludesZero -> mark[r] = top };
            atomic { locksMark[r] = true; isStale[r] = isStale[r] || mark[r] != top }
        fi;
        /* If anything has changed, it begins anew. */
        atomic {
            if
            :: isStale[r] -> leave(r)
            :: else -> reads[r] = true; isOld[r] = old
            fi;
            begins[r] = false;
            isStale[r] = false;
            top = 0;
            old = false
        };
        atomic {
            if
            :: reads[r] -> leave(r)
            :: else
            fi
        }
    od
}

/* sqlite3_wal_checkpoint_v2(PASSIVE): walCheckpoint. */
inline checkpoint(log, copied) {
    /* That the header and nBackfill are looked at in one moment is what SQLite 3.51.3 has mended. */
#ifdef BUG_WAL_RESET
    atomic { log = frames; safe = log };
    need = (backfilled < log);
#else
    atomic { log = frames; safe = log; need = (backfilled < log) };
#endif
    if
    :: need ->
        need = false;
        for (r : 0 .. READERS - 1) {
            atomic {
                if
                :: mark[r] < safe && locksMark[r] -> safe = mark[r]
                :: mark[r] < safe && !locksMark[r] -> mark[r] = UNUSED
                :: else
                fi
            }
        };
        r = 0;
        if
        :: atomic { backfilled < safe && !zeroIsLocked -> excludesZero = true };
            atomic {
#ifndef NO_PROMISE
                for (r : 0 .. READERS - 1) {
                    /* SQLite's own promise: nobody's snapshot is overwritten. */
                    assert(!reads[r] || locksMark[r] && mark[r] >= safe)
                };
                r = 0;
#endif
                backfilled = safe;
                excludesZero = false
            }
        :: atomic { !(backfilled < safe && !zeroIsLocked) -> skip }
        fi
    :: else
    fi;
    atomic {
        copied = backfilled;
        checkpointing = false;
        safe = 0
    }
}

/* Other connections' checkpoints, of this process and of others. */
proctype Checkpointer() {
    byte log, copied, safe, r;
    bool need;

end:
    do
    :: atomic { !checkpointing && mayHelp -> helps; checkpointing = true };
        checkpoint(log, copied);
        atomic { log = 0; copied = 0 }
    od
}

/* Stepper.isProvenUnread, once for each step. */
proctype Stepper() {
    byte log, copied, safe, r, behind;
    bool need;

    /* Retirement.advance comes here with a record that says `copied`. */
#ifdef BUG_MARK_BEFORE
    behind = frames;
#else
    behind = UNUSED;
#endif
end_copying:
    isCopied;
    do
    :: !isProven ->
        if
#ifdef BUG_UNREAD_CONNECTION
        /* A connection that has not read yet is told of success, with -1 and -1. */
        :: isProven = true
#endif
#ifdef BUG_BUSY_IGNORED
        :: checkpointing -> isProven = true
#else
        :: checkpointing -> skip
#endif
        :: atomic { !checkpointing -> checkpointing = true };
            checkpoint(log, copied);
            /* retirementMarks: a frame that is not before the one of `copied`. */
            atomic {
                if
                :: behind == UNUSED -> behind = log
                :: else
                fi;
                if
#if defined(BUG_ANY_CHECKPOINT)
                :: copied > 0
#elif defined(BUG_NEW_WAL_UNSEEN)
                :: copied >= behind
#else
                :: copied >= behind || log < behind
#endif
                    -> isProven = true
                :: else
                fi;
                assert(!isProven || !somebodyReadsOld);
                log = 0;
                copied = 0
            }
        fi;
        assert(!isProven || !somebodyReadsOld)
    :: isProven -> break
    od
}

init {
    atomic {
        run Writer();
        run Reader(0);
#if READERS > 1
        run Reader(1);
#endif
#if READERS > 2
        run Reader(2);
#endif
        run Checkpointer();
        run Stepper()
    }
}

/* Under weak fairness, with somebody who reads at each moment: it is proven some time, if the table is copied. */
#ifdef LIVENESS
ltl ends { [] (isCopied -> <> isProven) }
#endif
