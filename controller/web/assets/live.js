'use strict';
// Fills the controller's pages from their JSON and keeps them up to date. Foreign text is only ever set as text.
(() => {
  const main = document.getElementById('main'), page = document.body.dataset.page;
  if (!page) return;
  const svg = 'http://www.w3.org/2000/svg';

  // el('td.name', {title: 'x'}, 'text', child): strings become text nodes.
  const el = (what, attributes, ...children) => {
    const [tag, ...classes] = what.split('.');
    const node = document.createElement(tag);
    if (classes.length) node.className = classes.join(' ');
    Object.entries(attributes || {}).forEach(([key, value]) => { if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value); });
    node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ''));
    return node;
  };
  const put = (parent, ...children) => parent.replaceChildren(...children.flat().filter((child) => child));
  const text = (node, value) => { if (node.textContent !== value) node.textContent = value; };
  const link = (address, ...children) => el('a', {href: address}, ...children);
  const none = (why) => el('span.none', {}, why || 'not measured');

  const styles = {SUCCEEDED: 'good', INVALID: 'bad', FAILED: 'bad', REFUSED: 'bad', CANCELLED: 'warn', CLEAN: 'good', DIRTY: 'bad', UNKNOWN: 'bad',
    READY: 'good', BUSY: '', SUSPECT: 'warn', LOST: 'bad', DRAINED: 'warn', QUARANTINED: 'bad', REVOKED: 'bad', PASS: 'good', FAIL: 'bad', NOTE: 'warn', NOT_MEASURED: 'warn'};
  const badge = (word, style) => el('span.badge', {class: 'badge ' + (style === undefined ? styles[word] || '' : style)}, word.toLowerCase().replaceAll('_', ' '));
  const number = (v, places) => v === null || v === undefined ? null : v.toLocaleString('en-US', {maximumFractionDigits: places === undefined ? 1 : places});
  const bytes = (v) => { const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']; let i = 0; while (v >= 1024 && i < 5) { v /= 1024; ++i; } return number(v) + ' ' + units[i]; };
  const duration = (seconds) => {
    const s = Math.max(0, Math.round(seconds));
    if (s < 60) return s + ' s';
    if (s < 3600) return Math.floor(s / 60) + ' min ' + s % 60 + ' s';
    return Math.floor(s / 3600) + ' h ' + Math.floor(s % 3600 / 60) + ' min';
  };
  const between = (from, to) => (Date.parse(to) - Date.parse(from)) / 1000;
  const clock = (time) => time ? el('time', {datetime: time, title: time}, time.slice(0, 19).replace('T', ' ')) : '–';
  const level = (name) => { const n = name.slice(1); return name[0] === 'c' ? n + (n === '1' ? ' user' : ' users') : name[0] === 'r' ? n + ' requests/s' : name[0] === 'x' ? n + ' × recorded speed' : name; };
  const bar = (done, total) => {
    const fill = el('i');
    fill.style.width = (total ? 100 * done / total : 0) + '%';
    return el('div.progress', {role: 'progressbar', 'aria-label': 'Repeats done', 'aria-valuemin': 0, 'aria-valuemax': total, 'aria-valuenow': done}, fill);
  };
  const table = (head, rows, name) => el('div.scroll', {role: 'region', tabindex: 0, 'aria-label': name},
    el('table', {}, el('thead', {}, el('tr', {}, head.map((h) => h.nodeType ? h : el('th', {scope: 'col'}, h)))), el('tbody', {}, rows)));

  // --- asking ----------------------------------------------------------------------------------------------
  const trouble = document.getElementById('trouble'), fresh = document.getElementById('fresh');
  let failingSince = null;
  const ask = async (address) => {
    const reply = await fetch(address, {headers: {Accept: 'application/json'}});
    const body = await reply.json();
    if (!reply.ok) throw Object.assign(new Error(body.error || 'HTTP ' + reply.status), {status: reply.status});
    return body;
  };
  // Calls `update` every `seconds`, slower while nobody looks; says so when the controller does not answer.
  const keep = (seconds, update) => {
    let timer = 0, busy = false, over = false;
    const once = async () => {
      if (busy || over) return;
      clearTimeout(timer);
      busy = true;
      try {
        over = await update() === 'over';
        failingSince = null;
        trouble.hidden = true;
        main.removeAttribute('aria-busy');
        text(fresh, 'Up to date at ' + new Date().toISOString().slice(11, 19) + ' UTC.');
      } catch (error) {
        failingSince = failingSince || new Date();
        trouble.hidden = false;
        text(trouble, error.status ? error.message : 'The controller does not answer since ' + failingSince.toISOString().slice(11, 19) + ' UTC; what is shown may be old.');
        over = error.status === 404;
      }
      busy = false;
      if (!over) timer = setTimeout(once, (document.hidden ? 10 : 1) * seconds * 1000);
    };
    document.addEventListener('visibilitychange', () => { if (!document.hidden) once(); });
    once();
  };

  // --- jobs ------------------------------------------------------------------------------------------------
  const name = (job) => job.name || job.id;
  const at = (job) => {
    if (job.waiting_for) return job.waiting_for;
    const p = job.position;
    if (!p || job.finished || !p.workload) return '';
    return [p.stack, p.workload, level(p.level), 'repeat ' + p.repeat, p.phase].filter((word) => word).join(', ');
  };
  const took = (job, now) => job.started ? duration(between(job.started, job.ended || now)) : '–';
  const jobRow = (job, now) => el('tr', {'data-id': job.id},
    el('td.name', {}, link('/jobs/' + job.id, name(job)), el('br'), el('small', {}, job.id)),
    el('td', {}, badge(job.state), job.finished && (job.teardown === 'DIRTY' || job.teardown === 'UNKNOWN') ? [' ', badge('tear-down ' + job.teardown, 'bad')] : ''),
    el('td', {}, job.position && job.position.total ? [bar(job.position.done, job.position.total), el('small', {}, job.position.done + ' of ' + job.position.total + ' repeats')] : '–'),
    el('td.hide-narrow', {}, at(job) || (job.reasons.length ? job.reasons[0].message : '–')),
    el('td.hide-narrow', {}, clock(job.submitted), el('br'), el('small', {}, job.owner)),
    el('td.hide-narrow', {}, took(job, now)),
    el('td', {}, job.report ? link('/jobs/' + job.id + '/report.html', 'report') : '–'));

  // The buttons to older jobs and back: `pages` to show, `query` for the page to ask, `turn` when its answer came.
  const pager = (update) => {
    let before = 0, next = 0;
    const older = el('button', {type: 'button', hidden: ''}, 'older jobs'), newest = el('button', {type: 'button', hidden: ''}, 'newest jobs');
    older.addEventListener('click', () => { before = next; update(); });
    newest.addEventListener('click', () => { before = 0; update(); });
    return {
      pages: el('p', {}, newest, ' ', older),
      query: () => before ? '?before=' + before : '',
      turn: (reply) => { next = reply.next; older.hidden = !next; newest.hidden = before === 0; },
    };
  };

  const jobsPage = () => {
    const groups = {all: () => true, unfinished: (job) => !job.finished, finished: (job) => job.finished, 'not succeeded': (job) => job.finished && job.state !== 'SUCCEEDED'};
    let chosen = 'all', last = null;
    const filters = el('div.filters', {role: 'group', 'aria-label': 'Which jobs'}, Object.keys(groups).map((group) => {
      const button = el('button', {type: 'button', 'aria-pressed': group === chosen}, group);
      button.addEventListener('click', () => {
        chosen = group;
        filters.querySelectorAll('button').forEach((b) => b.setAttribute('aria-pressed', String(b === button)));
        draw();
      });
      return button;
    }));
    const counts = el('p.soft'), body = el('tbody'), empty = el('p.soft', {hidden: ''}), {pages, query, turn} = pager(() => update());
    const grid = el('div.scroll', {role: 'region', tabindex: 0, 'aria-label': 'Jobs'}, el('table', {}, el('thead', {}, el('tr', {},
      ['Job', 'State', 'Progress'].map((h) => el('th', {scope: 'col'}, h)), el('th.hide-narrow', {scope: 'col'}, 'At'), el('th.hide-narrow', {scope: 'col'}, 'Submitted'),
      el('th.hide-narrow', {scope: 'col'}, 'Took'), el('th', {scope: 'col'}, 'Report'))), body));
    put(main, counts, filters, empty, grid, pages);
    const draw = () => {
      const jobs = last.jobs.filter(groups[chosen]);
      // A row that did not change stays: focus and selection in it stay, too.
      const old = new Map([...body.children].map((row) => [row.dataset.id, row]));
      const rows = jobs.map((job) => {
        const row = jobRow(job, last.now), had = old.get(job.id);
        return had && had.isEqualNode(row) ? had : row;
      });
      if (rows.length !== body.children.length || rows.some((row, i) => row !== body.children[i])) put(body, rows);
      empty.hidden = jobs.length > 0;
      grid.hidden = jobs.length === 0;
      text(empty, last.jobs.length ? 'No job of this kind on this page.' : 'There are no jobs yet: poolmark submit job.yaml');
      turn(last);
      text(counts, Object.entries(last.counts).filter(([, n]) => n).map(([state, n]) => n + ' ' + state.toLowerCase().replaceAll('_', ' ')).join(', '));
    };
    const update = async () => { last = await ask('/api/jobs' + query()); draw(); };
    keep(2, update);
  };

  // --- one job ---------------------------------------------------------------------------------------------
  // The methodology's seven steps; the states in which each runs.
  const steps = [['Plan', ['SUBMITTED', 'QUEUED']], ['Preflight', ['PREFLIGHT']], ['Launch', ['LAUNCHING']], ['Verify', ['VERIFYING']],
    ['Benchmark', ['BENCHMARKING']], ['Measure', ['COLLECTING']], ['Tear down', ['TEARING_DOWN']]];
  const stepOf = (state) => steps.findIndex(([, states]) => states.includes(state));

  // A small line picture of the last ticks; `lines`: a class and a function of a tick.
  const graph = (title, unit, lines) => {
    const value = el('b'), picture = document.createElementNS(svg, 'svg');
    picture.setAttribute('viewBox', '0 0 100 40');
    picture.setAttribute('preserveAspectRatio', 'none');
    picture.setAttribute('role', 'img');
    const node = el('figure.graph', {}, el('figcaption', {}, el('span', {}, title), value), picture);
    const drawn = lines.map(([style]) => {
      const line = document.createElementNS(svg, 'polyline');
      line.setAttribute('class', style);
      picture.append(line);
      return line;
    });
    return {node, draw: (ticks) => {
      const series = lines.map(([, of]) => ticks.map(of));
      const most = Math.max(...series.flat().filter((v) => v !== null && v !== undefined), 1e-9);
      const first = ticks.length ? ticks[0].wall_ns : 0, span = Math.max(1, (ticks.length ? ticks[ticks.length - 1].wall_ns : 0) - first);
      series.forEach((values, i) => drawn[i].setAttribute('points', values.map((v, k) => v === null || v === undefined ? '' :
        ((ticks[k].wall_ns - first) / span * 100).toFixed(2) + ',' + (38 - v / most * 36).toFixed(2)).join(' ')));
      const now = series.map((values) => values.length ? number(values[values.length - 1]) : null).map((v) => v === null || v === undefined ? '–' : v).join(' / ');
      text(value, now + ' ' + unit);
      picture.setAttribute('aria-label', title + ': ' + now + ' ' + unit + ' now, at most ' + number(most) + ' in the last ' + duration(span / 1e9));
    }};
  };

  const jobPage = () => {
    const id = document.body.dataset.job;
    const events = [], ticks = [];
    let after = 0, job = null, now = null;
    const title = document.getElementById('title'), lead = document.getElementById('lead');
    const state = el('p', {'aria-live': 'polite'}), reasons = el('div'), strip = el('ol.steps', {'aria-label': 'Steps'}), place = el('p.lead'), progress = el('div');
    const facts = el('dl');
    const rates = el('section', {hidden: ''}, el('h2', {}, 'Load now'));
    const graphs = [
      graph('Requests ended and started', 'per second', [['a', (t) => t.ended_per_s], ['b', (t) => t.started_per_s]]),
      graph('Output events', 'per second', [['a', (t) => t.events_per_s]]),
      graph('Time to first token, P50 and P99', 'ms', [['a', (t) => t.ttft_ms && t.ttft_ms.p50], ['b', (t) => t.ttft_ms && t.ttft_ms.p99]]),
      graph('In flight', 'requests', [['a', (t) => t.in_flight]]),
    ];
    const numbers = el('p.soft');
    rates.append(el('div.graphs', {}, graphs.map((g) => g.node)), numbers);
    const kinds = el('div.filters', {role: 'group', 'aria-label': 'Kinds of events'});
    const rows = el('tbody'), hidden = new Set();
    put(main, state, el('p', {id: 'report'}), reasons, strip, place, progress, facts, rates,
      el('section', {}, el('h2', {}, 'Events'), kinds, el('div.scroll.events', {role: 'region', tabindex: 0, 'aria-label': 'Events'},
        el('table', {}, el('thead', {}, el('tr', {}, ['Time', 'Kind', 'What'].map((h) => el('th', {scope: 'col'}, h)))), rows))));

    const stepStates = () => {
      const current = stepOf(job.state);
      const reached = steps.map(() => null);
      // Of this cycle: a new launch begins again after the preflight.
      events.filter((e) => e.kind === 'state').forEach((e) => {
        const i = stepOf(e.state);
        if (i >= 0) reached[i] = e.time;
        if (i === 2 && !job.finished) reached.fill(null, 3);
      });
      const failing = job.finished && job.state !== 'SUCCEEDED' && job.state !== 'INVALID'
        ? Math.max(...events.filter((e) => e.kind === 'state' && e.state !== 'TEARING_DOWN').map((e) => stepOf(e.state)), 0) : -1;
      return steps.map(([title], i) => {
        const style = i === current ? 'now' : i === failing && job.state !== 'CANCELLED' ? 'failed' : reached[i] ? 'done' : job.finished ? 'skipped' : 'todo';
        const since = i === current && reached[i] ? duration(between(reached[i], now)) : style === 'done' ? 'done' : style === 'failed' ? 'stopped here' : style === 'skipped' ? 'not reached' : '';
        return el('li', {class: style, 'aria-current': i === current ? 'step' : null}, title, el('small', {}, since || '\u00a0'));
      });
    };
    const what = (e) => {
      if (e.kind === 'state') return [badge(e.state), ' ', e.message];
      if (!e.check) return [e.message || e.state.toLowerCase()];
      return [badge(e.check.outcome), ' ', e.message || e.check.id];
    };
    const eventRow = (e) => el('tr', {'data-kind': e.kind}, el('td', {}, clock(e.time)), el('td', {}, e.kind, el('br'), el('small', {}, [e.machine, e.process].filter((w) => w).join(', '))), el('td', {}, what(e)));
    const kindButtons = () => {
      const all = [...new Set(events.map((e) => e.kind))].sort();
      if (all.length === kinds.children.length) return;
      put(kinds, all.map((kind) => {
        const button = el('button', {type: 'button', 'aria-pressed': String(!hidden.has(kind))}, kind);
        button.addEventListener('click', () => {
          if (!hidden.delete(kind)) hidden.add(kind);
          button.setAttribute('aria-pressed', String(!hidden.has(kind)));
          [...rows.children].forEach((row) => { row.hidden = hidden.has(row.dataset.kind); });
        });
        return button;
      }));
    };

    const draw = (fresh) => {
      text(title, name(job));
      document.title = name(job) + ', ' + job.state.toLowerCase().replaceAll('_', ' ');
      text(lead, 'Job ' + job.id + ', submitted by ' + (job.owner || 'nobody known') + (job.labels.length ? ', ' + job.labels.map((l) => l.key + '=' + l.value).join(', ') : ''));
      const line = [badge(job.state), ' ', job.finished ? badge('tear-down ' + job.teardown, styles[job.teardown] || '') : '',
        job.cancel_requested && !job.finished ? [' ', badge('cancel requested', 'warn')] : ''].flat();
      const next = el('p', {}, line);
      if (next.textContent !== state.textContent) put(state, ...next.childNodes);
      const report = document.getElementById('report');
      if (job.report && !report.firstChild) report.append(link('/jobs/' + job.id + '/report.html', 'Open the report'));
      put(reasons, job.reasons.length ? el(job.state === 'CANCELLED' || !job.finished ? 'div.box.warn' : 'div.box.bad', {}, el('p', {}, el('strong', {}, job.finished ? 'Why it ended so' : 'What happened')), el('ul', {}, job.reasons.map((r) =>
        el('li', {}, r.message, r.machine ? el('small', {}, ' ' + r.machine) : '')))) : null);
      put(strip, stepStates());
      text(place, job.finished ? '' : at(job));
      const p = job.position;
      put(progress, p && p.total ? [bar(p.done, p.total), el('small', {}, p.done + ' of ' + p.total + ' repeats done' + (p.cycle ? ', cycle ' + p.cycle : ''))] : null);
      put(facts, [['Submitted', clock(job.submitted)], ['Started', clock(job.started)], ['Ended', clock(job.ended)], ['Took', took(job, now)],
        ['Estimated', job.estimated_seconds ? duration(job.estimated_seconds) : '–'], ['Machines', job.machines.length ? job.machines.join(', ') : '–'],
        ['Results', job.finished ? el('code', {}, 'poolmark fetch ' + job.id + ' DIR') : 'when it ends']].flatMap(([key, value]) => [el('dt', {}, key), el('dd', {}, value)]));
      fresh.forEach((e) => {
        const row = eventRow(e);
        row.hidden = hidden.has(e.kind);
        rows.prepend(row);
      });
      kindButtons();
      rates.hidden = ticks.length === 0 || job.finished;
      if (!rates.hidden) {
        graphs.forEach((g) => g.draw(ticks));
        const t = ticks[ticks.length - 1], late = t.lateness_ms || {};
        text(numbers, [t.phase + ' at ' + duration(t.t), number(t.ended, 0) + ' of ' + number(t.started, 0) + ' started requests ended', number(t.failed, 0) + ' failed',
          'own lateness P99 ' + (number(late.p99, 3) === null ? 'not measured' : number(late.p99, 3) + ' ms')].join(' · '));
      }
    };
    const update = async () => {
      let more = true;
      while (more) {
        const reply = await ask('/api/jobs/' + id + '?after=' + after + '&ticks=' + (ticks.length ? ticks[ticks.length - 1].wall_ns : 0));
        ({job, now, more} = reply);
        reply.events.forEach((e) => { after = Math.max(after, e.sequence); });
        events.push(...reply.events);
        ticks.push(...reply.ticks);
        ticks.splice(0, Math.max(0, ticks.length - 300));
        draw(reply.events);
      }
      return job.finished && job.report ? 'over' : '';
    };
    keep(1, update);
  };

  // --- machines --------------------------------------------------------------------------------------------
  const machineFacts = (m, lease) => {
    const f = m.facts, list = (items) => items.length ? items.map((item) => el('div', {}, item)) : 'none';
    return [
      ['Held by', m.job ? link('/jobs/' + m.job, m.job) : 'no job'],
      ['Lease', m.job ? 'epoch ' + m.epoch + ', renewed with each heartbeat, ends ' + duration(lease) + ' after the last' : 'none'],
      ['Last heartbeat', number(m.heartbeat_age_seconds) + ' s ago'],
      ['Clock', m.clock_offset_seconds === null ? none() : number(m.clock_offset_seconds * 1000, 3) + ' ms off' + (m.clock_uncertainty_seconds === null ? '' : ' ± ' + number(m.clock_uncertainty_seconds * 1000, 3) + ' ms')],
      ['Agent', (m.agent_version || '–') + (m.address ? ' at ' + m.address : '')],
      ['System', [f.os, f.kernel].filter((w) => w).join(', ') || none()],
      ['Processor', f.cpu ? f.cpu + ', ' + f.cpus + ' CPUs' + (f.numa_nodes > 1 ? ', ' + f.numa_nodes + ' NUMA nodes' : '') : none()],
      ['Memory', f.memory_bytes ? bytes(f.memory_bytes) + (f.memory_lockable_bytes ? ', lockable ' + bytes(f.memory_lockable_bytes) : '') : none()],
      ['GPUs', list(f.gpus.map((g) => [g.vendor, g.model, bytes(g.memory_bytes), 'driver ' + g.driver].join(' ')))],
    ].concat([[
      ['Certificate', m.certificate_expires ? ['until ', clock(m.certificate_expires)] : none('not told')],
      ['Network cards', list(f.nics.map((n) => n.name + (n.address ? ' ' + n.address : '') + ', ' + n.state.toLowerCase() + ', MTU ' + n.mtu + ', ' + (n.speed_bits_per_second === null ? 'speed not told' : number(n.speed_bits_per_second / 1e9) + ' Gbit/s')))],
      ['RDMA ports', list(f.rdma.map((p) => p.device + ' port ' + p.port + ', ' + p.state + ', ' + p.rate + ', ' + p.link_layer))],
      ['Drives', list(f.drives.map((d) => [d.name, d.model, bytes(d.size_bytes)].filter((w) => w).join(' ')))],
      ['Tools', list(f.tools.map((t) => [t.name, t.version, t.note].filter((w) => w).join(' ')))],
      ['May start', f.executables.join(', ') || 'nothing'],
      ['Containment', f.containment || none()],
      ['Work directory', f.work_dir ? f.work_dir + ', ' + bytes(f.work_dir_free_bytes) + ' free' : none()],
    ]]);
  };
  const pairs = (list) => list.flatMap(([key, value]) => [el('dt', {}, key), el('dd', {}, value)]);
  const machinesPage = () => {
    const summary = el('p.soft'), grid = el('div.machines'), cards = new Map();
    put(main, summary, grid);
    keep(2, async () => {
      const reply = await ask('/api/machines');
      const states = {};
      const nodes = reply.machines.map((m) => {
        states[m.state] = (states[m.state] || 0) + 1;
        if (!cards.has(m.name)) {
          const card = {node: el('article.machine', {}), head: el('h2'), reason: el('p.bad'), facts: el('dl'), more: el('dl')};
          card.node.append(card.head, card.reason, card.facts, el('details', {}, el('summary', {}, 'More facts'), card.more));
          cards.set(m.name, card);
        }
        const card = cards.get(m.name), facts = machineFacts(m, reply.lease_seconds), more = facts.pop();
        put(card.head, m.name, ' ', badge(m.state));
        text(card.reason, m.reason);
        card.reason.hidden = !m.reason;
        put(card.facts, pairs(facts));
        put(card.more, pairs(more));
        return card.node;
      });
      if (nodes.length !== grid.children.length || nodes.some((node, i) => node !== grid.children[i])) put(grid, nodes);
      text(summary, nodes.length ? nodes.length + (nodes.length === 1 ? ' machine: ' : ' machines: ') + Object.entries(states).map(([s, n]) => n + ' ' + s.toLowerCase()).join(', ')
        : 'No machine has joined yet: poolmark-controller token create, then poolmark-agent join TOKEN.');
    });
  };

  // --- reports ---------------------------------------------------------------------------------------------
  const reportsPage = () => {
    const holder = el('div'), {pages, query, turn} = pager(() => update());
    let shown = '';
    put(main, holder, pages);
    const update = async () => {
      const reply = await ask('/api/jobs' + query()), jobs = reply.jobs.filter((job) => job.finished);
      turn(reply);
      const key = JSON.stringify(jobs);
      if (key === shown) return;
      shown = key;
      put(holder, jobs.length ? table(['Job', 'State', 'Ended', 'Took', 'Report'], jobs.map((job) => el('tr', {},
        el('td.name', {}, link('/jobs/' + job.id, name(job)), el('br'), el('small', {}, job.id)),
        el('td', {}, badge(job.state), job.reasons.length ? [el('br'), el('small', {}, job.reasons[0].message)] : ''), el('td', {}, clock(job.ended)), el('td', {}, took(job, reply.now)),
        el('td', {}, job.report ? link('/jobs/' + job.id + '/report.html', 'Open the report') : none('none was written')))), 'Reports')
        : el('p.soft', {}, reply.jobs.length ? 'None of these jobs has ended yet.' : 'No job has ended yet.'));
    };
    keep(5, update);
  };

  ({jobs: jobsPage, job: jobPage, machines: machinesPage, reports: reportsPage})[page]();
})();
