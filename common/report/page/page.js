'use strict';
(() => {
  const data = JSON.parse(document.getElementById('charts-data').textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
  const digits = (v) => {
    const places = v === 0 ? 0 : Math.min(9, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(v)))));
    return v.toLocaleString('en-US', {maximumFractionDigits: places});
  };
  const format = (v, unit) => {
    const a = Math.abs(v);
    if (unit === 's') return a !== 0 && a < 1e-3 ? digits(v * 1e6) + ' µs' : a < 1 ? digits(v * 1e3) + ' ms' : digits(v) + ' s';
    if (unit === 'share') return digits(v * 100) + ' %';
    if (unit === 'bytes/s') return a >= 1e9 ? digits(v / 1e9) + ' GB/s' : a >= 1e6 ? digits(v / 1e6) + ' MB/s' : digits(v / 1e3) + ' kB/s';
    if (unit === 'tokens') return a >= 1e9 ? digits(v / 1e9) + ' G' : a >= 1e6 ? digits(v / 1e6) + ' M' : a >= 1e3 ? digits(v / 1e3) + ' k' : digits(v);
    return digits(v) + (unit && unit !== 'ratio' && unit !== '' ? ' ' + unit : '');
  };
  const axis = (v, unit) => format(v, unit).replace(/ (tokens\/s|requests\/s|tokens)$/, '');

  // 95 % intervals: a whisker over each bar or point.
  const whiskers = {
    id: 'whiskers',
    afterDatasetsDraw(chart) {
      const {ctx, scales} = chart;
      chart.data.datasets.forEach((set, d) => {
        if (!set.low || !chart.isDatasetVisible(d)) return;
        const meta = chart.getDatasetMeta(d);
        ctx.save();
        ctx.strokeStyle = css('ink');
        ctx.lineWidth = 1.4;
        meta.data.forEach((element, i) => {
          if (set.low[i] === null || set.high[i] === null || set.low[i] === undefined) return;
          const low = scales.y.getPixelForValue(set.low[i]), high = scales.y.getPixelForValue(set.high[i]), x = element.x;
          ctx.beginPath();
          ctx.moveTo(x, low); ctx.lineTo(x, high);
          ctx.moveTo(x - 5, low); ctx.lineTo(x + 5, low);
          ctx.moveTo(x - 5, high); ctx.lineTo(x + 5, high);
          ctx.stroke();
        });
        ctx.restore();
      });
    },
  };
  const bands = {
    id: 'bands',
    beforeDatasetsDraw(chart, _args, options) {
      const {ctx, chartArea, scales} = chart;
      (options.list || []).forEach(([from, to]) => {
        const left = Math.max(chartArea.left, scales.x.getPixelForValue(from)), right = Math.min(chartArea.right, scales.x.getPixelForValue(to));
        if (right <= left) return;
        ctx.save();
        ctx.globalAlpha = 0.5;
        ctx.fillStyle = css('line');
        ctx.fillRect(left, chartArea.top, right - left, chartArea.bottom - chartArea.top);
        ctx.restore();
      });
    },
  };

  const config = (c) => {
    const points = c.series.some((s) => s.points);
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    const datasets = c.series.map((s, i) => {
      const color = css(s.color || 's' + (i % 8));
      const set = {
        label: s.label,
        data: s.points ? s.points.map(([x, y]) => ({x, y})) : s.values,
        low: s.low, high: s.high,
        backgroundColor: color,
        borderColor: color, borderWidth: c.kind === 'bar' ? 0 : 2,
        borderDash: s.dashed ? [6, 4] : [],
        pointRadius: s.markers ? 6 : c.kind === 'line' && (s.points || s.values).length > 24 ? 0 : 3,
        pointBackgroundColor: color, showLine: !s.markers, spanGaps: false, tension: 0,
      };
      if (s.stack) set.stack = s.stack;
      return set;
    });
    // A logarithmic axis is labelled at 1, 2 and 5 times the powers of ten.
    const round = (v) => [1, 2, 5].includes(Math.round(v / 10 ** Math.floor(Math.log10(v) + 1e-9)));
    const tick = (v) => !c.xLog || round(Number(v)) ? axis(Number(v), c.xUnit) : '';
    const x = points ? {type: c.xLog ? 'logarithmic' : 'linear', min: c.bands.length ? 0 : undefined, ticks: {callback: tick, autoSkip: !c.xLog, maxTicksLimit: 9, maxRotation: 0, color: css('soft')}}
                     : {ticks: {color: css('soft')}, stacked: c.stacked};
    x.title = {display: !!c.xTitle, text: c.xTitle, color: css('soft')};
    x.grid = {color: css('line'), display: points};
    const high = Math.max(0, ...c.series.flatMap((s) => (s.high || []).concat(s.low ? [] : []).filter((v) => v !== null)));
    const low = Math.min(0, ...c.series.flatMap((s) => (s.low || []).filter((v) => v !== null)));
    return {
      type: c.kind,
      data: {labels: points ? undefined : c.labels, datasets},
      plugins: [whiskers, bands],
      options: {
        responsive: true, maintainAspectRatio: false, animation: still ? false : {duration: 250},
        interaction: {mode: points ? 'nearest' : 'index', intersect: false, axis: 'x'},
        scales: {x, y: {stacked: c.stacked, beginAtZero: true, suggestedMax: c.stacked && c.yUnit === 'share' ? 1 : high || undefined, suggestedMin: low || undefined,
          max: c.stacked && c.yUnit === 'share' ? 1 : undefined,
          title: {display: !!c.yTitle, text: c.yTitle, color: css('soft')}, grid: {color: css('line')}, ticks: {color: css('soft'), callback: (v) => axis(v, c.yUnit)}}},
        plugins: {
          bands: {list: c.bands},
          legend: {display: c.series.length > 1, position: 'bottom', labels: {color: css('ink'), boxWidth: 14, boxHeight: c.kind === 'bar' ? 10 : 3}},
          tooltip: {callbacks: {
            title: (items) => points ? c.xTitle + ': ' + format(items[0].parsed.x, c.xUnit) : items[0].label,
            label: (item) => {
              const set = item.dataset, i = item.dataIndex;
              let text = set.label + ': ' + format(item.parsed.y, c.yUnit);
              if (set.low && set.low[i] !== null && set.low[i] !== undefined) text += ' (' + format(set.low[i], c.yUnit) + ' to ' + format(set.high[i], c.yUnit) + ')';
              return text;
            },
          }},
        },
      },
    };
  };

  let drawn = [];
  const draw = () => {
    drawn.forEach((chart) => chart.destroy());
    drawn = [];
    data.forEach((c) => {
      const canvas = document.getElementById(c.id + '-canvas');
      if (canvas) drawn.push(new Chart(canvas, config(c)));
    });
    // The first ones were measured before the page had its scroll bar.
    requestAnimationFrame(() => drawn.forEach((chart) => chart.resize()));
  };
  draw();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  const opened = [];
  addEventListener('beforeprint', () => {
    document.querySelectorAll('details:not([open])').forEach((d) => { d.open = true; opened.push(d); });
    drawn.forEach((chart) => chart.resize());
  });
  addEventListener('afterprint', () => { opened.splice(0).forEach((d) => { d.open = false; }); });
})();
