# XCP's start-up queue in ns-2: one flow, or more that join at JOIN_AT, over one bottleneck; XCP routers on every link.
# usage: ns ns2_xcp.tcl JOINING JOIN_AT SECONDS MBPS RTT DELAY ACCESS_MBPS PAYLOAD SEED
# JOINING 0 is one flow alone; RTT and DELAY (one way, of the bottleneck) in seconds. Prints, for every tenth of the time: its end, mean
# and largest queue in packets, the one in transmission left out.
set names {joining join_at seconds mbps rtt delay access payload seed}
foreach name $names value $argv { set $name $value }

Agent/TCP set packetSize_ $payload
Agent/TCP set window_ 1000000
Agent/TCP set tcpTick_ 0.000001
Agent/TCP set minrto_ 0.2
Agent/TCP set windowInit_ 2

set ns [new Simulator]
ns-random $seed
set left [$ns node]
set right [$ns node]

# A duplex link with XCP routers that know its capacity.
proc link {a b mbps delay} {
    global ns
    $ns duplex-link $a $b ${mbps}Mb $delay XCP
    foreach {x y} [list $a $b $b $a] {
        $ns queue-limit $x $y 1000000
        [[$ns link $x $y] queue] set-link-capacity [expr $mbps * 1e6]
    }
}

link $left $right $mbps $delay
set monitor [$ns monitor-queue $left $right ""]
set packets [$monitor get-pkts-integrator]
for {set i 0} {$i <= $joining} {incr i} {
    set source [$ns node]
    set sink [$ns node]
    link $source $left $access [expr ($rtt - 2 * $delay) / 4.0]
    link $right $sink $access [expr ($rtt - 2 * $delay) / 4.0]
    set tcp [new Agent/TCP/Reno/XCP]
    set receiver [new Agent/TCPSink/XCPSink]
    $ns attach-agent $source $tcp
    $ns attach-agent $sink $receiver
    $ns connect $tcp $receiver
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp
    $ns at [expr $i == 0 ? 0.0 : $join_at] "$ftp start"
}

set step [expr $seconds / 10.0]
set largest 0
set before 0.0
proc look {} {
    global ns monitor largest
    set largest [expr max($largest, [$monitor set pkts_])]
    $ns after 0.0002 look
}
proc show {} {
    global ns monitor packets largest before step
    $packets newpoint [$ns now] [$monitor set pkts_]
    set sum [$packets set sum_]
    puts [format "%.3f %.1f %d" [$ns now] [expr ($sum - $before) / $step] [expr int($largest)]]
    set before $sum
    set largest 0
    $ns after $step show
}
$ns at 0.0 look
$ns at $step show
$ns at [expr $seconds + 0.0001] {exit 0}
$ns run
