# The incast job of `make bench` for ns-2: n servers - switch - client, persistent NewReno connections, block after block.
# usage: ns ns2_incast.tcl SERVERS SECONDS [STEP [SEED [OVERHEAD]]]
# STEP: the link of server i is 50 us + i STEP long, in seconds (0); OVERHEAD: overhead_, seconds (0).
# Prints: data packets sent, acknowledgements received, blocks. A packet-hop is one packet over one link: 2 x (data + ACKs).
set n [lindex $argv 0]
set seconds [lindex $argv 1]
set step [expr {[llength $argv] > 2 ? [lindex $argv 2] : 0}]
set seed [expr {[llength $argv] > 3 ? [lindex $argv 3] : 1}]
set overhead [expr {[llength $argv] > 4 ? [lindex $argv 4] : 0}]
set sru 256            ;# segments of 1000 B: 256 KB
set buffer 32          ;# packets on the port towards the client

Agent/TCP set packetSize_ 1000
Agent/TCP set window_ 1000
Agent/TCP set minrto_ 0.2
Agent/TCP set overhead_ $overhead
Agent/TCP set tcpTick_ 0.000001

set ns [new Simulator]
$ns rtproto Static
set rng [new RNG]
$rng seed $seed
set blocks 0

set switch [$ns node]
set client [$ns node]
$ns duplex-link $switch $client 1Gb 50us DropTail
# DropTail's limit counts the packet in transmission as a free place.
$ns queue-limit $switch $client [expr $buffer + 1]
$ns queue-limit $client $switch 10000

set waiting 0
Agent/TCP instproc done {} { server-done }

proc request {} {
    global ns rng n sru waiting tcp
    set waiting $n
    set at [$ns now]
    for {set i 0} {$i < $n} {incr i} {
        # The client asks one server after the other, with a scheduling delay of up to 20 us in between.
        set at [expr $at + [$rng uniform 0 20e-6]]
        $ns at $at "$tcp($i) advanceby $sru"
    }
}

proc server-done {} {
    global ns waiting blocks
    incr waiting -1
    if {$waiting == 0} { incr blocks; $ns at [$ns now] request }
}

for {set i 0} {$i < $n} {incr i} {
    set server [$ns node]
    $ns duplex-link $server $switch 1Gb [expr 50e-6 + $step * $i] DropTail
    $ns queue-limit $server $switch 10000
    set tcp($i) [new Agent/TCP/Newreno]
    set sink [new Agent/TCPSink]
    $ns attach-agent $server $tcp($i)
    $ns attach-agent $client $sink
    $ns connect $tcp($i) $sink
}

proc finish {} {
    global n tcp blocks
    set data 0
    set acks 0
    for {set i 0} {$i < $n} {incr i} {
        incr data [$tcp($i) set ndatapack_]
        incr acks [$tcp($i) set nackpack_]
    }
    puts "$data $acks $blocks"
    exit 0
}

$ns at 0.001 request
$ns at $seconds finish
$ns run
