"""The style of the report's page: light and dark, wide and narrow, on paper. Colours of scores keep their contrast."""

STYLE = """
:root{--bg:#fff;--fg:#1b1f24;--muted:#57606a;--line:#d5dbe1;--card:#f5f7f9;--accent:#0b57d0;--warn:#8a4b00;
--warnbg:#fff6e5;--h0:#f3f6fa;--h1:#dfe9f6;--h2:#c6daf1;--h3:#aac9ec;--h4:#8db8e8;--h5:#72a8e6;--hfg:#10151b;
--none:#e4e7eb}
@media (prefers-color-scheme:dark){:root{--bg:#10151b;--fg:#e7eaee;--muted:#a3adb8;--line:#323c47;--card:#18202a;
--accent:#8ab8ff;--warn:#ffcf85;--warnbg:#2b2213;--h0:#1b2530;--h1:#1e3147;--h2:#213e60;--h3:#244b79;--h4:#285992;
--h5:#2c67ab;--hfg:#f4f7fa;--none:#2a3038}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif}
header,main,nav,footer{max-width:72rem;margin:0 auto;padding:0 1rem}
header{padding-top:1.5rem}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .25rem;overflow-wrap:anywhere}
h2{font-size:1.25rem;margin:2.5rem 0 .75rem;padding-top:.75rem;border-top:1px solid var(--line)}
h3{font-size:1.05rem;margin:1.5rem 0 .5rem;overflow-wrap:anywhere}
p,ul{max-width:46rem}
ul{padding-left:1.25rem}
li{margin:.35rem 0}
a{color:var(--accent)}
a:focus-visible,summary:focus-visible,[tabindex]:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.86em}
code{overflow-wrap:anywhere}
.muted{color:var(--muted)}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.skip{position:absolute;left:-99rem}
.skip:focus{left:1rem;top:.5rem;background:var(--bg);padding:.5rem;z-index:1}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1rem;padding:0;margin:.75rem 0;list-style:none;max-width:none}
nav li{margin:0}
.warn{background:var(--warnbg);border-left:4px solid var(--warn);padding:.5rem 1rem;max-width:46rem;margin:1rem 0}
.warn h3{margin:.25rem 0}
table{border-collapse:collapse;width:100%;margin:.75rem 0;font-variant-numeric:tabular-nums;font-size:.94rem}
caption{text-align:left;font-weight:600;padding:.25rem 0}
th,td{padding:.4rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;
overflow-wrap:break-word}
td code{overflow-wrap:anywhere}
thead th{color:var(--muted);font-weight:600;overflow-wrap:normal}
tbody th{font-weight:600}
figure{margin:1rem 0}
figcaption{color:var(--muted);font-size:.92rem;max-width:46rem}
.plot{display:block;width:100%;max-width:40rem;height:auto}
.plot text{fill:var(--fg);font-size:11.5px;font-family:inherit}
.plot .tick,.plot .name{fill:var(--muted)}
.plot .number{font-size:10.5px;font-weight:700;fill:var(--bg)}
.plot .of-incumbent,.plot .of-oracle{fill:var(--fg)}
.legend{columns:2 17rem;max-width:46rem;padding-left:1.5rem;font-size:.94rem}
.legend li{margin:0 0 .35rem;break-inside:avoid;overflow-wrap:anywhere}
.plot .grid{stroke:var(--line);stroke-width:1}
.plot .interval{stroke:var(--muted);stroke-width:1.5}
.plot .candidate{fill:var(--muted)}
.plot .incumbent{fill:var(--bg);stroke:var(--fg);stroke-width:2.5}
.plot .oracle{fill:var(--bg);stroke:var(--muted);stroke-width:1.5}
.plot .chosen{fill:var(--accent);stroke:var(--bg);stroke-width:1}
.plot .dial{fill:none;stroke:var(--accent);stroke-width:1.5}
.plot .hull{fill:none;stroke:var(--muted);stroke-width:1.5;stroke-dasharray:5 4}
.bar{width:4rem;height:.6rem;vertical-align:middle;margin-right:.5rem}
.bar .whole{fill:var(--none)}.bar .part{fill:var(--accent)}
.scroll{overflow-x:auto;max-width:100%}
.heat{width:auto;min-width:min(100%,30rem)}
.heat th,.heat td{border:1px solid var(--bg);padding:0}
.heat thead th{padding:.35rem .5rem;vertical-align:bottom;max-width:9rem;overflow-wrap:anywhere}
.heat tbody th{padding:.25rem .5rem .25rem 0;font-weight:400;width:55%;min-width:9rem;vertical-align:middle}
.heat .task{display:-webkit-box;-webkit-line-clamp:2;-webkit-box-orient:vertical;overflow:hidden;font-size:.86rem;
line-height:1.35}
.heat td{min-width:4.2rem;height:2.9rem;text-align:center;vertical-align:middle;background:var(--none)}
.heat td a{display:flex;align-items:center;justify-content:center;min-height:2.9rem;padding:.25rem;
color:var(--hfg);text-decoration:none;flex-wrap:wrap;gap:0 .35rem}
.share{white-space:nowrap}
.heat td a:hover{text-decoration:underline}
.heat .out a{color:var(--fg)}
.h0{background:var(--h0)!important}.h1{background:var(--h1)!important}.h2{background:var(--h2)!important}
.h3{background:var(--h3)!important}.h4{background:var(--h4)!important}.h5{background:var(--h5)!important}
.heat .to{box-shadow:inset 0 0 0 3px var(--fg)}
.out{background:repeating-linear-gradient(45deg,var(--none),var(--none) 5px,var(--bg) 5px,var(--bg) 8px)!important}
.key{display:flex;flex-wrap:wrap;gap:.25rem .75rem;align-items:center;font-size:.9rem;padding:0;list-style:none;
max-width:none}
.key li{margin:0}
.key i{display:inline-block;width:1.6rem;height:1.1rem;vertical-align:middle;margin-right:.35rem}
details{border:1px solid var(--line);border-radius:6px;margin:.5rem 0;background:var(--bg)}
summary{cursor:pointer;padding:.55rem .75rem;overflow-wrap:anywhere}
details>:not(summary){margin-left:.75rem;margin-right:.75rem}
details details{background:var(--card)}
.table>table,.table>.scroll{width:calc(100% - 1.5rem)}
.turns{padding-left:1.4rem;max-width:none}
.turns li{margin:.75rem 0}
pre.said{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--card);border:1px solid var(--line);
border-radius:4px;padding:.5rem .6rem;margin:.3rem 0;max-height:24rem;overflow:auto}
details details pre.said{background:var(--bg)}
pre.bad{border-left:4px solid var(--warn)}
.cell{scroll-margin-top:5rem}
.cell:target{outline:3px solid var(--accent);outline-offset:4px}
dl.small{display:grid;grid-template-columns:max-content 1fr;gap:.15rem .75rem;margin:.5rem 0}
dl.small dt{color:var(--muted)}dl.small dd{margin:0;overflow-wrap:anywhere}
footer{color:var(--muted);font-size:.9rem;padding:1.5rem 1rem 3rem;margin-top:2rem}
@media (max-width:44rem){
.cards,.cards tbody,.cards tr,.cards td,.cards th,.cards caption{display:block;width:auto}
.cards thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.cards tr{border:1px solid var(--line);border-radius:6px;padding:.25rem .6rem;margin:.5rem 0}
.cards th,.cards td{border:0;padding:.2rem 0}
.cards td{display:grid;grid-template-columns:42% 1fr;gap:.75rem}
.cards td::before{content:attr(data-label);color:var(--muted)}
.heat{width:100%}.heat tbody th{min-width:6rem;width:40%}.heat td{min-width:2.9rem}
.heat thead th{max-width:5rem;font-size:.8rem;padding:.35rem .25rem}
dl.small{grid-template-columns:1fr}dl.small dd{margin-bottom:.35rem}}
@media print{nav,.skip{display:none}pre.said{max-height:none}details{break-inside:avoid}}
"""
