# The step of tests/validation/test_long_flows_ns2.py in ns-2: n senders - switch - sink, SACK with ECN, 1 Gb/s,
# RTT 300 us, 1500 B packets, port buffer 100 packets, RTOmin 10 ms, sends delayed by U(0, 12 us).
# usage: ns ns2_long_flows.tcl FLOWS SECONDS
# Prints, over 2 s .. SECONDS: utilisation, mean of the waiting packets (the one in transmission left out), drops.
set n [lindex $argv 0]
set seconds [lindex $argv 1]
set warmup 2.0

Agent/TCP set packetSize_ 1460
Agent/TCP set window_ 10000
Agent/TCP set minrto_ 0.01
Agent/TCP set tcpTick_ 0.000001
Agent/TCP set overhead_ 12e-6
Agent/TCP set ecn_ 1
# RED as a step: the average is the queue itself. It marks what finds more than 20 packets waiting: at exactly 20
# the probability is 0, above 21 it is 1.
Queue/RED set q_weight_ 1
Queue/RED set thresh_ 20
Queue/RED set maxthresh_ 21
Queue/RED set linterm_ 1
Queue/RED set gentle_ false
Queue/RED set bytes_ false
Queue/RED set queue_in_bytes_ false
Queue/RED set setbit_ true
Queue/RED set mark_p_ 2

set ns [new Simulator]
ns-random 1
$ns rtproto Static
set switch [$ns node]
set sink [$ns node]
$ns duplex-link $switch $sink 1Gb 75us RED
$ns queue-limit $switch $sink 100
$ns queue-limit $sink $switch 10000
set monitor [$ns monitor-queue $switch $sink ""]
set packets [$monitor get-pkts-integrator]
for {set i 0} {$i < $n} {incr i} {
    set host [$ns node]
    $ns duplex-link $host $switch 1Gb 75us DropTail
    $ns queue-limit $host $switch 10000
    $ns queue-limit $switch $host 10000
    set tcp [new Agent/TCP/Sack1]
    set receiver [new Agent/TCPSink/Sack1]
    $ns attach-agent $host $tcp
    $ns attach-agent $sink $receiver
    $ns connect $tcp $receiver
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp
    $ns at [expr $i * 0.001] "$ftp start"
}

proc observe {} {
    global monitor packets ns
    $packets newpoint [$ns now] [$monitor set pkts_]
    return [list [$monitor set bdepartures_] [$packets set sum_] [$monitor set pdrops_]]
}
proc finish {} {
    global before seconds warmup n
    set time [expr $seconds - $warmup]
    foreach was $before is [observe] { lappend change [expr double($is) - $was] }
    foreach {bytes sum drops} $change {
        puts [format "%d flows: utilisation %.5f, queue %.3f, drops %.0f" $n [expr $bytes * 8 / 1e9 / $time] \
            [expr $sum / $time] $drops]
    }
    exit 0
}
$ns at $warmup {set before [observe]}
$ns at $seconds finish
$ns run
