-- What PostgreSQL does for the state, besides its tables. Run whenever the schema's version rises.

CREATE TABLE IF NOT EXISTS penstock_budgets (
    key text PRIMARY KEY,
    budget jsonb NOT NULL
) WITH (fillfactor = 50);

-- Emptied by PostgreSQL itself whenever it may have forgotten what it acknowledged: after a crash,
-- and on a standby that took over. A new row in it is a new era, in which older budgets are spent.
CREATE UNLOGGED TABLE IF NOT EXISTS penstock_era (
    alone boolean PRIMARY KEY DEFAULT true CHECK (alone),
    era text NOT NULL
);

CREATE OR REPLACE FUNCTION penstock_now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

-- documents.patched: `patch` is a list of [path, "set" | "add" | "now", value].
CREATE OR REPLACE FUNCTION penstock_patched(document jsonb, patch jsonb, now_ms bigint)
RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    change jsonb;
    path text[];
    value jsonb;
BEGIN
    FOR change IN SELECT jsonb_array_elements(patch) LOOP
        path := ARRAY(SELECT jsonb_array_elements_text(change -> 0));
        FOR depth IN 1 .. array_length(path, 1) - 1 LOOP
            IF jsonb_typeof(document #> path[:depth]) IS DISTINCT FROM 'object' THEN
                document := jsonb_set(document, path[:depth], '{}');
            END IF;
        END LOOP;
        value := change -> 2;
        IF change ->> 1 = 'add' THEN
            value := to_jsonb(coalesce((document #>> path)::bigint, 0) + value::bigint);
        ELSIF change ->> 1 = 'now' THEN
            value := to_jsonb(now_ms + value::bigint);
        END IF;
        document := jsonb_set(document, path, value);
    END LOOP;
    RETURN document;
END $$;

-- budget.lease: the same rule, step by step; the grant is put behind the budget, as a fifth part.
-- Numbers in brackets are places in the lists that Ask, Window, Pace, Budget and Grant are written as.
CREATE OR REPLACE FUNCTION penstock_leased(
    budget jsonb, ask jsonb, present_era text, now_ms bigint
) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    offset_ms bigint := ask[2];
    opening_ms bigint := ask[3];
    closing_ms bigint := ask[4];
    lost boolean := budget ->> 0 NOT IN ('', present_era);
    blocked_ms bigint := greatest(budget[1]::bigint, ask[5]::bigint);
    at_ms bigint := now_ms;
    ready_ms bigint := greatest(now_ms, blocked_ms);
    uses jsonb := budget[3];
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
BEGIN
    FOR number IN 0 .. jsonb_array_length(ask[1]) - 1 LOOP
        charge := ask[1][number];
        name := charge ->> 0;
        amount := charge[1];
        period_ms := charge[2];
        need := charge[4];
        needed := true;
        unit_us := (period_ms * 1000 + amount - 1) / amount;
        furthest_us := (now_ms + period_ms) * 1000 + charge[3]::bigint * unit_us;
        IF lost THEN
            spoken_us := furthest_us;
        ELSE
            spoken_us := coalesce(uses[name][0]::bigint, 0);
            spoken_us := least(greatest(spoken_us, now_ms * 1000), furthest_us);
        END IF;
        send_ms := (spoken_us + (need - charge[3]::bigint) * unit_us + 999) / 1000;
        at_ms := greatest(at_ms, send_ms);
        ready_ms := greatest(ready_ms, send_ms - period_ms);
        uses := uses || jsonb_build_object(name, jsonb_build_array(spoken_us, 0));
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
        use := uses[name];
        index := (now_ms + offset_ms) / period_ms;
        used := 0;
        IF lost OR use[0]::bigint > index + 1 THEN
            used := amount;
        ELSIF use[0]::bigint >= index THEN
            index := use[0];
            used := use[1];
        END IF;
        IF charge[6]::bigint = index THEN
            used := greatest(used, charge[5]::bigint);
        END IF;
        ends_ms := (index + 1) * period_ms - offset_ms;
        opens_ms := ends_ms - period_ms + opening_ms;
        IF used + need > amount OR at_ms >= ends_ms - closing_ms THEN
            ready_ms := greatest(ready_ms, ends_ms + opening_ms);
        ELSIF at_ms < opens_ms THEN
            ready_ms := greatest(ready_ms, opens_ms);
        END IF;
        tokens := greatest(need, least(charge[4]::bigint, amount - used));
        uses := uses || jsonb_build_object(name, jsonb_build_array(index, used));
        spent := spent || jsonb_build_object(name, jsonb_build_array(index, used + tokens));
        blocks := blocks || jsonb_build_array(jsonb_build_array(index, tokens));
    END LOOP;
    IF ready_ms > now_ms THEN
        RETURN jsonb_build_array(
            present_era, blocked_ms, budget[2]::bigint + needed::int, uses,
            jsonb_build_array(false, now_ms, ready_ms, '[]'::jsonb)
        );
    END IF;
    RETURN jsonb_build_array(
        present_era, blocked_ms, budget[2], uses || spent,
        jsonb_build_array(true, now_ms, at_ms, blocks)
    );
END $$;
