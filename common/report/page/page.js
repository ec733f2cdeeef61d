'use strict';
// Draws the charts of #charts-data with Chart.js. Each figure has variants to choose from; the tables beside hold them all.
(() => {
  const holder = document.getElementById('charts-data');
  if (!holder) return;
  const data = JSON.parse(holder.textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
  const digits = (v) => {
    const places = v === 0 ? 0 : Math.min(9, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(v)))));
    return v.toLocaleString('en-US', {maximumFractionDigits: places});
  };
  const format = (v, unit) => {
    const a = Math.abs(v);
    if (unit === 's') return a === 0 ? '0' : a < 1e-3 ? digits(v * 1e6) + ' µs' : a < 1 ? digits(v * 1e3) + ' ms' : digits(v) + ' s';
    if (unit === 'share') return digits(v * 100) + ' %';
    if (unit === 'bytes/s') return a >= 1e9 ? digits(v / 1e9) + ' GB/s' : a >= 1e6 ? digits(v / 1e6) + ' MB/s' : digits(v / 1e3) + ' kB/s';
    if (unit === 'tokens') return a >= 1e9 ? digits(v / 1e9) + ' G' : a >= 1e6 ? digits(v / 1e6) + ' M' : a >= 1e3 ? digits(v / 1e3) + ' k' : digits(v);
    return digits(v) + (unit && unit !== 'ratio' ? ' ' + unit : '');
  };
  const axis = (v, unit) => format(v, unit).replace(/ (tokens\/s|requests\/s|tokens\/J|tokens|requests)$/, '');
  const known = (v) => v !== null && v !== undefined;

  // Pale for preliminary, hatched for invalid: the mark is in the picture itself.
  const hatch = (color) => {
    const tile = document.createElement('canvas');
    tile.width = tile.height = 8;
    const pen = tile.getContext('2d');
    pen.strokeStyle = color;
    pen.lineWidth = 1.6;
    pen.beginPath();
    for (const at of [-4, 4, 12]) { pen.moveTo(at - 4, 8); pen.lineTo(at + 4, 0); }
    pen.stroke();
    return pen.createPattern(tile, 'repeat');
  };
  const paint = (color, mark) => mark === 'invalid' ? hatch(color) : mark === 'preliminary' ? color + '80' : color;

  // 95 % intervals: a whisker over each bar.
  const whiskers = {
    id: 'whiskers',
    afterDatasetsDraw(chart) {
      const {ctx, scales} = chart, lying = chart.options.indexAxis === 'y', scale = lying ? scales.x : scales.y;
      ctx.save();
      ctx.strokeStyle = css('ink');
      ctx.lineWidth = 1.4;
      chart.data.datasets.forEach((set, d) => {
        if (!set.low || !chart.isDatasetVisible(d)) return;
        chart.getDatasetMeta(d).data.forEach((element, i) => {
          if (!known(set.low[i]) || !known(set.high[i])) return;
          const low = scale.getPixelForValue(set.low[i]), high = scale.getPixelForValue(set.high[i]), at = lying ? element.y : element.x;
          const move = (along, across, draw) => ctx[draw ? 'lineTo' : 'moveTo'](lying ? along : across, lying ? across : along);
          ctx.beginPath();
          move(low, at); move(high, at, true);
          for (const end of [low, high]) { move(end, at - 4); move(end, at + 4, true); }
          ctx.stroke();
        });
      });
      ctx.restore();
    },
  };
  const bands = {
    id: 'bands',
    beforeDatasetsDraw(chart, _args, options) {
      const {ctx, chartArea, scales} = chart;
      (options.list || []).forEach((band) => {
        const left = Math.max(chartArea.left, scales.x.getPixelForValue(band.from)), right = Math.min(chartArea.right, scales.x.getPixelForValue(band.to));
        if (right <= left) return;
        ctx.save();
        ctx.globalAlpha = 0.55;
        ctx.fillStyle = css('line');
        ctx.fillRect(left, chartArea.top, right - left, chartArea.bottom - chartArea.top);
        ctx.globalAlpha = 1;
        ctx.fillStyle = css('soft');
        ctx.font = '11px system-ui, sans-serif';
        if (right - left > ctx.measureText(band.label).width + 6) ctx.fillText(band.label, left + 3, chartArea.top + 12);
        ctx.restore();
      });
    },
  };
  // What a point stands for ("6 users"), beside it.
  const names = {
    id: 'names',
    afterDatasetsDraw(chart) {
      const {ctx, chartArea} = chart;
      ctx.save();
      ctx.font = '11px system-ui, sans-serif';
      ctx.fillStyle = css('soft');
      const taken = [];  // a name that would lie on another is left to the tooltip
      chart.data.datasets.forEach((set, d) => {
        if (!set.notes || set.showLine === false || !chart.isDatasetVisible(d)) return;
        chart.getDatasetMeta(d).data.forEach((element, i) => {
          const width = ctx.measureText(set.notes[i]).width;
          const left = Math.min(element.x + 7, chartArea.right - width), base = element.y - 7;
          if (taken.some((box) => left < box.right && left + width > box.left && Math.abs(base - box.base) < 13)) return;
          taken.push({left, right: left + width, base});
          ctx.fillText(set.notes[i], left, base);
        });
      });
      ctx.restore();
    },
  };

  // Values that include the load generator's own delay have the star that tables give them.
  const stars = {
    id: 'stars',
    afterDatasetsDraw(chart) {
      const {ctx} = chart;
      ctx.save();
      ctx.font = 'bold 16px system-ui, sans-serif';
      ctx.fillStyle = css('bad');
      ctx.textAlign = 'center';
      chart.data.datasets.forEach((set, d) => {
        if (!chart.isDatasetVisible(d) || set.pointRadius === 0) return;
        chart.getDatasetMeta(d).data.forEach((element, i) => {
          if (!set.ownDelay[i] || !known(set.data[i])) return;
          const lying = chart.options.indexAxis === 'y';
          ctx.fillText('*', element.x + (lying ? 8 : set.low ? -8 : 0), element.y + (lying ? 8 : 0));
        });
      });
      ctx.restore();
    },
  };

  const dataset = (c, s, i) => {
    const color = css(s.color || 's' + (i % 8));
    const marks = s.marks || [];
    const colors = marks.length ? (s.points || s.values).map((_v, k) => paint(color, marks[k])) : color;
    const bare = c.kind === 'line' && (s.stepped || (s.points || s.values).length > 24);
    const set = {
      label: s.label, group: s.group || s.label, low: s.low, high: s.high, marks, notes: s.notes, ownDelay: s.ownDelay || [],
      data: s.points ? s.points.map(([x, y]) => ({x, y})) : s.values,
      backgroundColor: c.kind === 'bar' ? colors : color, pointBackgroundColor: colors, pointBorderColor: color,
      borderColor: color, borderWidth: c.kind === 'line' ? 2 : marks.some((m) => m) ? 1 : 0, borderDash: s.dashed ? [6, 4] : [],
      pointRadius: s.markers ? 6 : bare ? 0 : 3, pointHitRadius: 8, showLine: !s.markers, stepped: !!s.stepped, spanGaps: false, tension: 0,
      maxBarThickness: c.horizontal ? 26 : 64,
    };
    if (s.stack) set.stack = s.stack;
    return set;
  };

  const config = (c) => {
    const points = c.series.some((s) => s.points);
    const datasets = c.series.map((s, i) => dataset(c, s, i));
    const ends = (key, seed, pick) => pick(seed, ...c.series.flatMap((s) => (s[key] || []).filter(known)));
    const whole = c.stacked && c.yUnit === 'share';
    const values = {
      stacked: c.stacked, beginAtZero: true, suggestedMax: ends('high', 0, Math.max) || undefined, suggestedMin: ends('low', 0, Math.min) || undefined,
      max: whole ? 1 : undefined, grace: c.kind === 'line' ? '6%' : undefined, title: {display: !!c.yTitle, text: c.yTitle, color: css('soft')}, grid: {color: css('line')},
      ticks: {color: css('soft'), maxTicksLimit: 8, callback: (v) => axis(v, c.yUnit)},
    };
    // A logarithmic axis is labelled at 1, 2 and 5 times the powers of ten.
    const round = (v, leads) => leads.some((lead) => Math.abs(v / 10 ** Math.floor(Math.log10(v) + 1e-9) - lead) < 1e-6);
    const xs = c.series.flatMap((s) => (s.points || []).map((p) => p[0]));
    const along = points
      ? {type: c.xLog ? 'logarithmic' : 'linear', min: c.xLog ? Math.min(...xs) / 1.2 : c.bands.length || c.xUnit === 'share' ? 0 : undefined,
         max: c.xLog ? Math.max(...xs) * 1.2 : c.xUnit === 'share' ? 1 : undefined,
         ticks: {callback(v) { return !c.xLog || round(Number(v), this.chart.width < 440 ? [1] : [1, 2, 5]) ? axis(Number(v), c.xUnit) : ''; }, autoSkip: !c.xLog, maxTicksLimit: 9, maxRotation: 0, color: css('soft')},
         grid: {color: css('line')}, title: {display: !!c.xTitle, text: c.xTitle, color: css('soft')}}
      : {ticks: {color: css('soft'), autoSkip: false}, stacked: c.stacked, grid: {display: false}, title: {display: !!c.xTitle && !c.horizontal, text: c.xTitle, color: css('soft')}};
    if (c.series.some((s) => s.notes && !s.markers)) along.grace = '8%';
    const groups = [...new Set(datasets.map((s) => s.group))];
    return {
      type: c.kind,
      data: {labels: points ? undefined : c.labels.map((label) => label.includes('\n') ? label.split('\n') : label), datasets},
      plugins: [whiskers, bands, names, stars],
      options: {
        responsive: true, maintainAspectRatio: false, animation: false, indexAxis: c.horizontal ? 'y' : 'x',
        interaction: points ? {mode: 'nearest', intersect: false, axis: 'xy'} : {mode: 'index', intersect: false},
        scales: c.horizontal ? {y: along, x: values} : {x: along, y: values},
        plugins: {
          bands: {list: c.bands},
          legend: {
            display: groups.length > 1, position: 'bottom',
            labels: {
              color: css('ink'), boxWidth: 14, boxHeight: c.kind === 'bar' ? 10 : 3,
              generateLabels: (chart) => groups.map((group) => {
                const at = datasets.findIndex((s) => s.group === group), color = css(c.series[at].color || 's' + (at % 8));
                return {text: group, fillStyle: color, strokeStyle: color, fontColor: css('ink'), hidden: !chart.isDatasetVisible(at), datasetIndex: at};
              }),
            },
            onClick: (_event, item, legend) => {
              const show = !legend.chart.isDatasetVisible(item.datasetIndex);
              datasets.forEach((s, i) => { if (s.group === item.text) legend.chart.setDatasetVisibility(i, show); });
              legend.chart.update();
            },
          },
          tooltip: {callbacks: {
            title: (items) => points ? c.xTitle + ': ' + format(items[0].parsed.x, c.xUnit) : items[0].label,
            label: (item) => {
              const set = item.dataset, i = item.dataIndex;
              let text = set.label + ': ' + format(c.horizontal ? item.parsed.x : item.parsed.y, c.yUnit);
              if (set.low && known(set.low[i])) text += ' (' + format(set.low[i], c.yUnit) + ' to ' + format(set.high[i], c.yUnit) + ')';
              if (set.notes) text += ', ' + set.notes[i];
              if (set.ownDelay[i]) text += ' *';
              return set.marks[i] ? text + ', ' + set.marks[i] : text;
            },
          }},
        },
      },
    };
  };

  const drawn = new Map();
  const draw = (figure) => {
    const canvas = document.getElementById(figure.id + '-canvas');
    if (!canvas) return;
    if (drawn.has(figure.id)) drawn.get(figure.id).destroy();
    const chosen = document.querySelector('input[name="' + figure.id + '-choice"]:checked');
    const variant = figure.variants[chosen ? Number(chosen.value) : 0];
    drawn.set(figure.id, new Chart(canvas, config(variant)));
    const marks = new Set(variant.series.flatMap((s) => s.marks || []));
    const says = [];
    if (marks.has('preliminary')) says.push('Pale: preliminary, fewer than three valid repeats.');
    if (marks.has('invalid')) says.push('Hatched: invalid, a diagnostic and never a result.');
    if (variant.series.some((s) => s.dashed)) says.push('Dashed: an invalid repeat.');
    canvas.closest('figure').querySelector('.marks').textContent = says.join(' ');
  };
  // A figure is drawn when it comes near the screen, so that a long report opens at once.
  const waiting = new Map(data.map((figure) => [figure.id, figure]));
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const figure = entry.isIntersecting && waiting.get(entry.target.id);
      if (!figure) continue;
      waiting.delete(figure.id);
      watcher.unobserve(entry.target);
      draw(figure);
    }
  }, {rootMargin: '600px'});
  data.forEach((figure) => {
    const element = document.getElementById(figure.id);
    if (element) watcher.observe(element);
    document.querySelectorAll('input[name="' + figure.id + '-choice"]').forEach((input) => input.addEventListener('change', () => draw(figure)));
  });
  const again = () => data.forEach((figure) => { if (drawn.has(figure.id)) draw(figure); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
  addEventListener('poolmark-theme', again);

  const tables = document.getElementById('tables');
  if (tables) {
    tables.hidden = false;
    tables.addEventListener('click', () => {
      const open = tables.getAttribute('aria-pressed') !== 'true';
      tables.setAttribute('aria-pressed', String(open));
      document.querySelectorAll('details.figures').forEach((d) => { d.open = open; });
    });
  }
  const opened = [];
  addEventListener('beforeprint', () => {
    waiting.forEach((figure) => draw(figure));
    waiting.clear();
    document.querySelectorAll('details:not([open])').forEach((d) => { d.open = true; opened.push(d); });
    drawn.forEach((chart) => chart.resize());
  });
  addEventListener('afterprint', () => { opened.splice(0).forEach((d) => { d.open = false; }); });
})();
