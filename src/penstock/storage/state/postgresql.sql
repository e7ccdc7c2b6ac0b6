-- What PostgreSQL does for the state, besides its tables. Run whenever the schema's version rises.

-- What no crash may forget of a budget: that it was used, and until when the exchange said stop.
CREATE TABLE IF NOT EXISTS penstock_known_budgets (
    key text COLLATE "C" PRIMARY KEY,
    blocked_until_ms bigint NOT NULL DEFAULT 0
);

-- Budgets. PostgreSQL itself empties an unlogged table whenever it may have forgotten part of it:
-- after a crash, and on a standby that took over. What is opened again then begins as one that forgot.
-- One window's use has columns of its own, so that a block more of it is a plain UPDATE.
CREATE UNLOGGED TABLE IF NOT EXISTS penstock_budgets (
    key text COLLATE "C" PRIMARY KEY,
    blocked_until_ms bigint NOT NULL,
    refused bigint NOT NULL DEFAULT 0,
    forgot boolean NOT NULL,
    window_limit text COLLATE "C",
    window_index bigint NOT NULL DEFAULT 0,
    window_used bigint NOT NULL DEFAULT 0,
    uses jsonb NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);
ALTER TABLE penstock_budgets
    ADD COLUMN IF NOT EXISTS window_before bigint NOT NULL DEFAULT 0,
    -- By this clock; unknown where it was written before this was kept.
    ADD COLUMN IF NOT EXISTS window_ends_ms bigint,
    -- What others at this address used, will have used, and were expected to use.
    ADD COLUMN IF NOT EXISTS window_others jsonb NOT NULL DEFAULT '[0, 0, 0]';

CREATE OR REPLACE FUNCTION penstock_now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

-- Opened for the first time it is whole. One that was known is opened again only where it was lost.
CREATE OR REPLACE FUNCTION penstock_open_budget(asked text) RETURNS void LANGUAGE sql VOLATILE AS $$
    WITH first AS (
        INSERT INTO penstock_known_budgets VALUES (asked) ON CONFLICT DO NOTHING RETURNING key
    )
    INSERT INTO penstock_budgets (key, blocked_until_ms, forgot)
    SELECT asked, coalesce(max(blocked_until_ms), 0), NOT EXISTS (SELECT FROM first)
    FROM penstock_known_budgets WHERE key = asked
    ON CONFLICT DO NOTHING
$$;

-- A window's use as Budget holds it.
CREATE OR REPLACE FUNCTION penstock_use(
    index bigint, used bigint, before bigint, ends_ms bigint, others jsonb
) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN ends_ms IS NULL THEN jsonb_build_array(index, used)
    ELSE jsonb_build_array(index, used, before, ends_ms) || others END
$$;

-- A budget as Budget is written.
CREATE OR REPLACE FUNCTION penstock_budget(asked text) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_array(
        '', blocked_until_ms, refused,
        CASE WHEN window_limit IS NULL THEN uses ELSE uses || jsonb_build_object(
            window_limit,
            penstock_use(
                window_index, window_used, window_before, window_ends_ms, window_others)) END,
        forgot
    ) FROM penstock_budgets WHERE key = asked
$$;

-- budget.lease: the same rule, step by step; NULL if nobody opened the budget.
-- Numbers in brackets are places in the lists that Ask, Window, Pace and Grant are written as.
CREATE OR REPLACE FUNCTION penstock_lease(asked text, ask jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    known penstock_budgets;
    now_ms bigint;
    offset_ms bigint := ask[2];
    ahead_ms bigint;
    opening_ms bigint := ask[3];
    closing_ms bigint := ask[4];
    blocked_ms bigint;
    at_ms bigint;
    ready_ms bigint;
    held jsonb;
    spent jsonb := '{}';
    blocks jsonb := '[]';
    needed boolean := false;
    charge jsonb;
    name text;
    use jsonb;
    amount bigint;
    period_ms bigint;
    need bigint;
    unit_us bigint;
    furthest_us bigint;
    spoken_us bigint;
    send_ms bigint;
    index bigint;
    used bigint;
    ends_ms bigint;
    opens_ms bigint;
    tokens bigint;
    present bigint;
    before bigint;
    told_ms bigint;
    is_carried boolean;
    others jsonb;
    foreign_used bigint;
BEGIN
    SELECT * INTO known FROM penstock_budgets WHERE key = asked FOR UPDATE;
    IF known.key IS NULL THEN
        RETURN NULL;
    END IF;
    -- Read once it is this caller's turn.
    now_ms := penstock_now_ms();
    at_ms := now_ms;
    blocked_ms := greatest(known.blocked_until_ms, ask[5]::bigint);
    ready_ms := greatest(now_ms, blocked_ms);
    held := known.uses;
    IF known.window_limit IS NOT NULL THEN
        held := held || jsonb_build_object(
            known.window_limit,
            penstock_use(
                known.window_index, known.window_used, known.window_before, known.window_ends_ms,
                known.window_others
            )
        );
    END IF;
    IF NOT known.forgot AND (SELECT count(*) FROM jsonb_object_keys(held)) > 64 THEN
        SELECT coalesce(jsonb_object_agg(each.key, each.value), '{}') INTO held
        FROM jsonb_each(held) AS each
        WHERE CASE WHEN jsonb_array_length(each.value) < 7
            THEN each.value[0]::bigint > now_ms * 1000 OR each.value[1]::bigint <> 0
            ELSE each.value[3]::bigint
                + 2 * (each.value[3]::bigint / (each.value[0]::bigint + 1) + 1) > now_ms END;
    END IF;
    ahead_ms := coalesce(nullif(ask[6]::bigint, 0) - now_ms, offset_ms);
    FOR number IN 0 .. jsonb_array_length(ask[1]) - 1 LOOP
        charge := ask[1][number];
        name := charge ->> 0;
        amount := charge[1];
        period_ms := charge[2];
        need := charge[4];
        needed := true;
        unit_us := (period_ms * 1000 + amount - 1) / amount;
        furthest_us := (now_ms + period_ms) * 1000 + charge[3]::bigint * unit_us;
        IF held ? name THEN
            spoken_us := least(greatest(held[name][0]::bigint, now_ms * 1000), furthest_us);
        ELSIF known.forgot THEN
            spoken_us := furthest_us;
        ELSE
            spoken_us := now_ms * 1000;
        END IF;
        send_ms := (spoken_us + (need - charge[3]::bigint) * unit_us + 999) / 1000;
        at_ms := greatest(at_ms, send_ms);
        ready_ms := greatest(ready_ms, send_ms - period_ms);
        held := held || jsonb_build_object(name, jsonb_build_array(spoken_us, 0));
        spent := spent || jsonb_build_object(
            name, jsonb_build_array(spoken_us + need * unit_us, 0)
        );
    END LOOP;
    FOR number IN 0 .. jsonb_array_length(ask[0]) - 1 LOOP
        charge := ask[0][number];
        name := charge ->> 0;
        amount := charge[1];
        period_ms := charge[2];
        need := charge[3];
        needed := needed OR need > 0;
        use := held[name];
        present := (now_ms + ahead_ms) / period_ms;
        index := present;
        used := 0;
        before := 0;
        is_carried := false;
        told_ms := NULL;
        others := '[0, 0, 0]';
        IF use IS NULL THEN
            used := CASE WHEN known.forgot THEN amount ELSE 0 END;
        ELSIF jsonb_array_length(use) = 7 AND abs(
            (use[0]::bigint + 1) * period_ms - ahead_ms - use[3]::bigint
        ) > (CASE WHEN period_ms > 2000 THEN 1000 ELSE period_ms / 2 END) THEN
            ends_ms := use[3];
            IF use[0]::bigint = present THEN
                used := use[1];
                before := use[2];
                others := jsonb_build_array(use[4], use[5], use[6]);
                told_ms := (present + 1) * period_ms - ahead_ms;
                IF charge[6]::bigint <> present AND abs(ends_ms - told_ms) < period_ms THEN
                    told_ms := greatest(ends_ms, told_ms);
                END IF;
            ELSIF use[0]::bigint = present + 1 THEN
                index := use[0];
                used := use[1];
                before := use[2];
                others := jsonb_build_array(use[4], use[5], use[6]);
                told_ms := ends_ms;
            ELSIF now_ms >= ends_ms - period_ms - 1000
            AND present * period_ms - ahead_ms < ends_ms THEN
                used := use[1];
                IF now_ms < ends_ms - period_ms + 30000 THEN
                    used := used + use[2]::bigint;
                END IF;
                is_carried := true;
            ELSIF present = use[0]::bigint + 1 THEN
                before := use[1];
            END IF;
        ELSIF use[0]::bigint > present + 1 THEN
            used := use[1];
        ELSIF use[0]::bigint >= present OR use[0]::bigint = present - 1
        AND now_ms < use[3]::bigint AND charge[6]::bigint <> present THEN
            index := use[0];
            used := use[1];
            before := coalesce(use[2]::bigint, 0);
            told_ms := use[3];
            ends_ms := (index + 1) * period_ms - ahead_ms;
            IF charge[6]::bigint = index AND ends_ms > told_ms + opening_ms AND index >= present THEN
                told_ms := ends_ms;
            END IF;
            IF jsonb_array_length(use) = 7 THEN
                others := jsonb_build_array(use[4], use[5], use[6]);
            END IF;
        ELSIF use[0]::bigint = present - 1 THEN
            before := use[1];
            others := jsonb_build_array(0, 0, greatest(
                coalesce(use[5]::bigint, 0) * 11 / 10, coalesce(use[6]::bigint, 0) * 3 / 4
            ));
        END IF;
        IF charge[6]::bigint = index AND charge[5]::bigint > used THEN
            foreign_used := others[0]::bigint + charge[5]::bigint - used;
            used := charge[5];
            others := jsonb_build_array(foreign_used, least(foreign_used * 4, greatest(
                foreign_used,
                foreign_used * period_ms / greatest(1, now_ms + ahead_ms - index * period_ms)
            )), others[2]);
        END IF;
        ends_ms := (index + 1) * period_ms - ahead_ms;
        opens_ms := ends_ms - period_ms + opening_ms;
        IF ends_ms <= now_ms THEN
            ready_ms := greatest(ready_ms, told_ms + opening_ms);
        ELSIF used + need > amount OR at_ms >= ends_ms - closing_ms THEN
            ready_ms := greatest(ready_ms, ends_ms + opening_ms);
        ELSIF at_ms < opens_ms THEN
            ready_ms := greatest(ready_ms, opens_ms);
        END IF;
        tokens := greatest(need, least(charge[4]::bigint, amount - used));
        told_ms := coalesce(told_ms, ends_ms);
        IF NOT is_carried THEN
            held := held || jsonb_build_object(
                name, jsonb_build_array(index, used, before, told_ms) || others
            );
        END IF;
        spent := spent || jsonb_build_object(
            name, jsonb_build_array(index, used + tokens, before, told_ms) || others
        );
        blocks := blocks || jsonb_build_array(jsonb_build_array(index, tokens));
    END LOOP;
    IF ready_ms > now_ms THEN
        blocks := '[]';
        at_ms := ready_ms;
    ELSE
        held := held || spent;
    END IF;
    -- The window asked for first is the one that has columns.
    name := coalesce(known.window_limit, ask #>> '{0,0,0}');
    use := held -> name;
    UPDATE penstock_budgets SET
        blocked_until_ms = blocked_ms,
        refused = known.refused + (needed AND ready_ms > now_ms)::int,
        window_limit = name,
        window_index = coalesce(use[0]::bigint, 0),
        window_used = coalesce(use[1]::bigint, 0),
        window_before = coalesce(use[2]::bigint, 0),
        window_ends_ms = use[3]::bigint,
        window_others = CASE WHEN jsonb_array_length(use) = 7
            THEN jsonb_build_array(use[4], use[5], use[6]) ELSE '[0, 0, 0]' END,
        uses = coalesce(held - name, held)
    WHERE key = asked;
    IF blocked_ms > known.blocked_until_ms THEN
        UPDATE penstock_known_budgets SET blocked_until_ms = blocked_ms WHERE key = asked;
    END IF;
    RETURN jsonb_build_array(ready_ms <= now_ms, now_ms, at_ms, blocks);
END $$;
